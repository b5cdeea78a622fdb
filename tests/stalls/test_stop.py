"""A real gateway is told to end while something in it stands still or fails: it ends in time all the same (C14)."""

import signal
import time
from pathlib import Path

import pytest
from gateway_process import GatewayProcess, Person
from stalling import STOP_SECONDS, StallingGateway
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
        was_slow = "closing the store took longer" in gateway.log  # on a busy machine; then the last step was begun
        assert was_slow or not (home / "hermes-store.db-wal").exists()


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


@pytest.mark.parametrize("gate", ["loop", pytest.param("store", marks=pytest.mark.file_store)])
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


@pytest.mark.slow
def test_with_its_real_limits_it_ends_in_time(home: Path, lab: LabServer) -> None:
    """C14: a turn that does not end is cut. Had it taken ten seconds, the last resort had ended it, with 1."""
    with GatewayProcess(home, lab.base_url) as gateway:
        gateway.start()
        person = Person(home, "one")
        person.say("[[stall 300]]")
        wait_until(lambda: lab.in_flight == 1)
        assert gateway.terminate() == 0
        person.close()


def test_nothing_is_paid_after_the_grace(home: Path, lab: LabServer) -> None:
    """C14: a turn that would go on for ever is cut; while the rest is brought to its end, no model is asked."""
    step = {"text": "a b c d", "chunks": 4, "stall_between": 0.05}
    calls = ([{"name": "todo", "arguments": {"action": "list", "number": number}}] for number in range(80))
    lab.set_plan([{**step, "tool_calls": call} for call in calls])
    with StallingGateway(home, lab.base_url, grace=1.0) as gateway:
        gateway.start()
        person = Person(home, "one")
        person.say("go on and on")
        wait_until(lambda: len(lab.requests) > 3)
        gateway.close("disconnect-hangs")  # it lives for a while after its turns were cut
        told = time.monotonic()
        gateway.tell(signal.SIGTERM)
        asked, last = 0, told
        while not gateway.is_dead and time.monotonic() < told + STOP_SECONDS:
            if len(lab.requests) > asked:
                asked, last = len(lab.requests), time.monotonic()
            time.sleep(0.005)
        ended = time.monotonic()
        assert gateway.wait_end() == 0
        person.close()
    assert ended - last > 0.3
