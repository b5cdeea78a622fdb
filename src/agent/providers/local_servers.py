"""Ask model servers which models they have: all addresses at once, each once at a time, with little patience."""

import http.client
import logging
import socket
import threading
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from urllib.parse import urlsplit

from agent.providers.wire_limits import FORM_ERRORS, read_json

log = logging.getLogger(__name__)

SILENT_SECONDS = 0.4  # without a byte
WHOLE_SECONDS = 1.5  # for all of it, however it is sent
MOST_BYTES = 1_000_000  # of a list of models


class Look:
    """A look at one address, on a thread of its own. Nobody waits for it longer than its time, whatever it hangs in."""

    def __init__(self, address: str) -> None:
        self._address = address
        self._end = time.monotonic() + WHOLE_SECONDS
        self._over = threading.Event()
        self._socket: socket.socket | None = None
        self._models: Sequence[str] = ()

    def wait(self) -> Sequence[str]:
        """The models that were found in time; one that takes longer is cut off."""
        if not self._over.wait(max(0.0, self._end - time.monotonic())) and self._socket is not None:
            with suppress(OSError):  # it has just ended by itself
                self._socket.shutdown(socket.SHUT_RDWR)  # its thread reads the end of the answer, and ends
        return self._models

    def run(self) -> None:
        try:
            self._models = self._ask()
        except (OSError, http.client.HTTPException, *FORM_ERRORS):
            log.debug("nothing that lists models answers at %s", self._address)
        finally:
            with _lock:
                _looks.pop(self._address, None)
            self._over.set()

    def _ask(self) -> Sequence[str]:
        parts = urlsplit(self._address)
        make = http.client.HTTPSConnection if parts.scheme == "https" else http.client.HTTPConnection
        connection = make(parts.hostname or "", parts.port, timeout=SILENT_SECONDS)
        try:
            connection.connect()
            self._socket = connection.sock
            connection.request("GET", parts.path.rstrip("/") + "/models")
            response = connection.getresponse()
            body = read_json(response.read(MOST_BYTES).decode()) if response.status == 200 else {}
            return [str(model["id"]) for model in body["data"]] if "data" in body else []
        finally:
            connection.close()


_looks: dict[str, Look] = {}  # those under way, by address
_lock = threading.Lock()


def look_at(address: str) -> Look:
    """The look at this address that is under way, or a new one."""
    with _lock:
        look = _looks.get(address)
        if look is None:
            look = _looks[address] = Look(address)
            threading.Thread(target=look.run, name="look at models", daemon=True).start()
        return look


def probe_model_servers(addresses: Sequence[str]) -> Mapping[str, Sequence[str]]:
    """The models of each address that answers like a model server."""
    looks = [(address, look_at(address)) for address in addresses]
    return {address: models for address, look in looks if (models := look.wait())}


def find_better_address(address: str) -> str:
    """Where a model server answers, when it does not at this address but at one that is nearly the same."""
    longer = address.rstrip("/") + "/v1"
    return longer if longer in probe_model_servers([longer]) else ""
