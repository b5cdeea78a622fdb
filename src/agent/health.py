"""Which providers are well, shared by all conversations of the process: closed, open until a time, then one probe."""

import threading
import time
from dataclasses import dataclass

OPEN_SECONDS = 30.0
LONGEST_OPEN_SECONDS = 300.0


@dataclass
class _Circuit:
    open_until: float = 0.0
    failures: int = 0
    probing: bool = False


class ProviderHealth:
    """Asked at the start of a turn; told how calls went."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._circuits: dict[str, _Circuit] = {}

    def allows(self, name: str) -> bool:
        """Whether the next turn may start there; who failed gets one probe at a time when the pause is over."""
        with self._lock:
            circuit = self._circuits.get(name)
            if circuit is None or not circuit.failures:
                return True
            if time.monotonic() < circuit.open_until or circuit.probing:
                return False
            circuit.probing = True
            return True

    def note_failure(self, name: str, retry_after: float | None = None) -> None:
        with self._lock:
            circuit = self._circuits.setdefault(name, _Circuit())
            circuit.failures += 1
            circuit.probing = False
            pause = retry_after if retry_after is not None else OPEN_SECONDS * 2 ** (circuit.failures - 1)
            circuit.open_until = time.monotonic() + min(pause, LONGEST_OPEN_SECONDS)

    def note_success(self, name: str) -> None:
        if name in self._circuits:
            with self._lock:
                self._circuits.pop(name, None)


#: One for the process.
health = ProviderHealth()


def health_name(provider: str, base_url: str) -> str:
    return f"{provider} {base_url.rstrip('/')}"
