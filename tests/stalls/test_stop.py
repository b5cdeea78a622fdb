"""A real gateway is told to end while something in it stands still or fails: it ends in time all the same (C14)."""

import signal
from pathlib import Path

import pytest
from gateway_process import Person
from stalling import StallingGateway
from waiting import wait_until

from hermes_lab.server import LabServer


@pytest.mark.parametrize("gate", ["disconnect-raises", "disconnect-hangs"])
def test_a_platform_that_does_not_let_go_does_not_keep_the_rest(home: Path, lab: LabServer, gate: str) -> None:
    """C14: the other steps are taken, the store is left in order, and the exit code is 0."""
    with StallingGateway(home, lab.base_url) as gateway:
        gateway.start()
        gateway.close(gate)
        gateway.tell(signal.SIGTERM)
        assert gateway.wait_end() == 0
        assert not (home / "hermes-store.db-wal").exists()  # the last step closed it


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_second_signal_ends_it_at_once(home: Path, lab: LabServer, number: signal.Signals) -> None:
    """C14: nobody has to wait for the grace of turns."""
    with StallingGateway(home, lab.base_url, grace=300.0) as gateway:
        gateway.start()
        gateway.wait_probe()
        person = Person(home, "one")
        person.say("[[stall 300]]")
        wait_until(lambda: lab.in_flight == 1)
        gateway.tell(number)
        wait_until(lambda: "shutting down" in gateway.ask_ready())
        gateway.tell(number)
        assert gateway.wait_end() == 128 + number
        person.close()


@pytest.mark.parametrize("gate", ["loop", "store"])
def test_it_ends_although_the_heart_of_it_stands_still(home: Path, lab: LabServer, gate: str) -> None:
    """C14: a stuck event loop hears the signal, and a store that does not answer is left behind."""
    with StallingGateway(home, lab.base_url) as gateway:
        gateway.start()
        person = Person(home, "one")
        person.say("[[stall 300]]")
        wait_until(lambda: lab.in_flight == 1)
        with gateway.held(gate):
            gateway.tell(signal.SIGTERM)
            gateway.wait_end()
        person.close()
        gateway.start()  # nothing of it is left in the way
