"""Who is well, shared by all conversations of the process.

What failed is an address, a key at an address, or a model asked for with a key; a failure of one request says nothing
about any of them. Each has a **circuit**: closed, open until a time, then open to one probe. Whoever wants to call asks
for a **permit**, which ends with a success, a failure or neither, and frees what it probes in all three cases. A probe
is also leased for a time, so that one that never ends locks nobody out.
"""

import hashlib
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache

from agent.providers.runtime import Runtime
from hermes_base.errors import Concern

OPEN_SECONDS = 30.0
LONGEST_OPEN_SECONDS = 300.0
PROBE_SECONDS = 300.0
#: How long after its time a circuit is kept that nobody asks for any more, such as that of a mistyped name.
FORGOTTEN_SECONDS = 3600.0

Name = tuple[str, ...]


@lru_cache(maxsize=64)  # a model is asked turn after turn
def names_of(runtime: Runtime) -> dict[Concern, Name]:
    """What a call to this model depends on, by the concern of a failure. A key is known by its fingerprint only."""
    address = runtime.provider, runtime.base_url.rstrip("/")
    fingerprint = hashlib.sha256(runtime.api_key.encode("utf-8", "surrogatepass")).hexdigest()[:16]
    key = *address, fingerprint if runtime.api_key else ""
    return {Concern.ADDRESS: address, Concern.KEY: key, Concern.MODEL: (*key, runtime.model)}


@dataclass(eq=False)
class _Circuit:
    """One time of being unwell: when it is over, the next has a circuit of its own."""

    failures: int = 0
    open_until: float = 0.0
    probe: "Permit | None" = None
    probe_until: float = 0.0

    def refuses(self, now: float) -> bool:
        return now < self.open_until or (self.probe is not None and now < self.probe_until)


class Permit:
    """One stay with one model: may probe what failed before. It is settled once and for all by `release`; a success
    or a failure before that is told as often as it happens."""

    def __init__(self, health: "ProviderHealth", runtime: Runtime) -> None:
        self._health = health
        self.names = names_of(runtime)
        self.counted_in: set[_Circuit] = set()  # where its failure was counted

    def succeeded(self) -> None:
        circuits = self._health.circuits
        if circuits:
            with self._health._lock:
                for name in self.names.values():
                    circuits.pop(name, None)

    def failed(self, concern: Concern, retry_after: float | None = None) -> None:
        self._health.open(self, concern, retry_after)

    def release(self) -> None:
        """The stay is over; what it probed without a result may be probed by the next."""
        if self._health.circuits:
            with self._health._lock:
                self._health.free(self)


class ProviderHealth:
    """A table of circuits; a name without one is well."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self.tell_key: Callable[[Name, float], None] = lambda name, seconds: None  # told of keys that are unwell
        self.circuits: dict[Name, _Circuit] = {}  # empty while everybody is well, as they nearly always are

    def admit(self, runtime: Runtime) -> Permit | None:
        """A permit if everything that the model depends on is well or may be probed now; else None."""
        permit, now = Permit(self, runtime), self._clock()
        if not self.circuits:
            return permit
        with self._lock:
            unwell = self._circuits_of(permit)
            if any(circuit.refuses(now) for circuit in unwell):
                return None
            for circuit in unwell:
                circuit.probe, circuit.probe_until = permit, now + PROBE_SECONDS
        return permit

    def is_well(self, runtime: Runtime) -> bool:
        """Whether a permit could be had now; nothing is probed."""
        now = self._clock()
        with self._lock:
            return not any(circuit.refuses(now) for circuit in self._circuits_of(Permit(self, runtime)))

    def insist(self, runtime: Runtime) -> Permit:
        """A permit to call although it is not well, because nobody else is there; it probes nothing."""
        return Permit(self, runtime)

    def forget(self) -> None:
        """Everybody counts as well."""
        with self._lock:
            self.circuits.clear()

    # --- what permits tell

    def open(self, permit: Permit, concern: Concern, retry_after: float | None) -> None:
        """Close the way for a while: 30 s, twice as long each time; the tries of one stay count as one failure."""
        name = permit.names.get(concern)
        if name is None:
            return
        with self._lock:
            long_ago = self._clock() - FORGOTTEN_SECONDS
            for old in [each for each, circuit in self.circuits.items() if circuit.open_until < long_ago]:
                del self.circuits[old]
            circuit = self.circuits.setdefault(name, _Circuit())
            if circuit not in permit.counted_in:
                circuit.failures += 1
                permit.counted_in.add(circuit)
            pause = OPEN_SECONDS * 2 ** min(circuit.failures - 1, 10) if retry_after is None else retry_after
            pause = min(pause, LONGEST_OPEN_SECONDS)
            circuit.open_until = self._clock() + pause
            self.free(permit)
        if concern is Concern.KEY:
            self.tell_key(name, pause)

    def learn(self, name: Name, seconds: float) -> bool:
        """Another process found this unwell for so long; whether that is news here."""
        with self._lock:
            until = self._clock() + min(seconds, LONGEST_OPEN_SECONDS)
            circuit = self.circuits.get(name)
            if circuit is not None and circuit.open_until >= until - 1.0:
                return False
            circuit = self.circuits.setdefault(name, _Circuit())
            circuit.failures, circuit.open_until = max(1, circuit.failures), until
            return True

    def free(self, permit: Permit) -> None:
        for circuit in self._circuits_of(permit):
            if circuit.probe is permit:
                circuit.probe = None

    def _circuits_of(self, permit: Permit) -> list[_Circuit]:
        return [self.circuits[name] for name in permit.names.values() if name in self.circuits]


#: One for the process.
health = ProviderHealth()
