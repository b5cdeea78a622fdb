"""Gateways in which something stands still, and how long anybody else may be kept waiting by it.

The limits are parameters, and generous: other work on the machine must not decide what a test says."""

import http.client
import signal
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path

from gateway_process import GatewayProcess, Person, Said
from waiting import wait_until

from hermes_lab.ports import free_ports

STALLING = str(Path(__file__).with_name("stalling_gateway.py"))
#: Everybody else is served within a second; the rest is for a machine that has other things to do, too.
SERVED_SECONDS = 20.0
#: Everything goes on within ten seconds of a thaw.
THAW_SECONDS = 30.0
#: A probe notices a store that stands still within a few seconds.
PROBE_SECONDS = 10.0
#: A process that was told to end is gone after ten seconds.
STOP_SECONDS = 30.0
_ANSWER_SECONDS = 5.0


class StallingGateway(GatewayProcess):
    """A gateway whose parts can be stopped and let go on, by name (`stalling_gateway`)."""

    def __init__(self, home: Path, base_url: str, *, grace: float = 0.3) -> None:
        (self._port,) = free_ports(1)
        super().__init__(home, base_url, web={"port": self._port})
        self._gates = home / "gates"
        self._gates.mkdir()
        self.program = [STALLING, str(self._gates), str(grace)]

    def close(self, name: str) -> None:
        (self._gates / name).touch()

    def open(self, name: str) -> None:
        (self._gates / name).unlink()

    @contextmanager
    def held(self, name: str) -> Iterator[None]:
        """Until its end this part of the gateway stands still, from the moment when it was reached on."""
        self.close(name)
        wait_until((self._gates / f"{name}.reached").exists)
        try:
            yield
        finally:
            self.open(name)

    @contextmanager
    def held_for(self, people: Sequence[Person], name: str, text: str) -> Iterator[list[Said]]:
        """All of them say this, and each of their messages stands still there until the end."""
        self.close(name)
        said = [person.say(text) for person in people]
        for person, message in zip(people, said, strict=True):
            person.wait_stored(message)
        wait_until((self._gates / f"{name}.reached").exists)
        try:
            yield said
        finally:
            self.open(name)

    def tell(self, number: signal.Signals) -> None:
        assert self._child is not None
        self._child.send_signal(number)

    def wait_end(self) -> int:
        """Its exit code."""
        child, self._child = self._child, None
        assert child is not None
        with child:
            try:
                return child.wait(STOP_SECONDS)
            finally:
                child.kill()

    def ask_ready(self) -> str:
        """What a probe sees: `ready`, why it is not, or `no answer`."""
        try:
            with closing(http.client.HTTPConnection("127.0.0.1", self._port, timeout=_ANSWER_SECONDS)) as wire:
                wire.request("GET", "/ready")
                answer = wire.getresponse()
                return "ready" if answer.status == http.client.OK else answer.read().decode()
        except (OSError, http.client.HTTPException):
            return "no answer"

    def wait_probe(self, seconds: float = THAW_SECONDS) -> None:
        wait_until(lambda: self.ask_ready() == "ready", seconds)
