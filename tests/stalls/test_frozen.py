"""A real gateway whose event loop or store stands still for a while: it says so, loses nothing, and goes on."""

import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from gateway_process import Person, read_store, wait_quiet
from stalling import PROBE_SECONDS, THAW_SECONDS, StallingGateway
from waiting import wait_until

from hermes_base.inbound import Address, Inbound, write_inbound
from hermes_base.store_place import find_place
from hermes_lab.server import LabServer
from hermes_state.sql.store_sql import Store

NODES = "select id from node order by expires desc limit 1"


@pytest.fixture
def gateway(home: Path, lab: LabServer) -> Iterator[StallingGateway]:
    with StallingGateway(home, lab.base_url) as made:
        made.start()
        made.wait_probe()
        yield made


@pytest.fixture
def people(gateway: StallingGateway) -> Iterator[list[Person]]:
    made = [Person(gateway.home, name) for name in ("one", "two", "three")]
    yield made
    for person in made:
        person.close()


def wait_dead(gateway: StallingGateway) -> None:
    """Until the lease of its node is over, since its heartbeat has stopped."""
    wait_until(lambda: "the event loop is stuck" in gateway.log)
    wait_until(lambda: read_store(gateway.home, "select max(expires) from node")[0][0] < time.time())


def test_a_loop_that_stood_still_goes_on_as_a_new_node(
    gateway: StallingGateway, people: list[Person], lab: LabServer
) -> None:
    """B7, F5, C2: the node dies meanwhile. What was accepted is answered, a turn under way ends once, new messages are
    taken, and the probe never says yes in between."""
    idle, busy, late = people
    idle.ask("[[say before]]")
    [old] = read_store(gateway.home, NODES)
    going = busy.say("[[stall 2]] [[say the long one]]")
    wait_until(lambda: lab.in_flight == 1)
    with gateway.held("loop"):
        during = [idle.say("[[say said meanwhile]]"), late.say("[[say from another]]")]
        assert gateway.ask_ready() != "ready"
        wait_dead(gateway)
    idle.wait_dealt(during[0], seconds=THAW_SECONDS)
    late.wait_dealt(during[1], seconds=THAW_SECONDS)
    busy.wait_dealt(going, seconds=THAW_SECONDS)
    idle.ask("[[say after]]", THAW_SECONDS)
    gateway.wait_probe()
    [new] = read_store(gateway.home, NODES)
    assert new != old
    wait_quiet(gateway.home, people)
    assert [shown.outgoing.text for shown in idle.shown] == ["before", "said meanwhile", "after"]
    assert [shown.outgoing.text for shown in busy.shown] == ["the long one"]
    assert [shown.outgoing.text for shown in late.shown] == ["from another"]


def test_a_message_that_nobody_owns_does_not_wait_for_a_turn_of_the_old_node(
    gateway: StallingGateway, people: list[Person], lab: LabServer
) -> None:
    """B7, C2: what lies in the store unclaimed is taken up although a long turn runs on under an old claim."""
    _, busy, idle = people
    busy.say("[[stall 60]]")
    wait_until(lambda: lab.in_flight == 1)
    with gateway.held("loop"):
        wait_dead(gateway)
        inbound = Inbound(Address("local", "local", idle.name), "x-1", "owner", "[[say found]]", received=time.time())
        with closing(Store(find_place(gateway.home), busy_timeout=THAW_SECONDS)) as store:
            store.turns.accept(idle.conversation, "local:local", inbound.ext_id, write_inbound(inbound))
    idle.wait_shown("found", THAW_SECONDS)
    wait_until(
        lambda: lab.in_flight == 1
    )  # the long turn's call, once: the other is answered and may be on its way out


@pytest.mark.file_store
def test_a_store_that_stands_still_is_told_and_loses_nothing(gateway: StallingGateway, people: list[Person]) -> None:
    """F5, F6, C2: the disk under the store does not answer. The loop serves whoever does not need it, the probe says
    no within its limit, and everything is answered after the thaw."""
    idle, other, _ = people
    idle.ask("[[say before]]")
    with gateway.held("store"):
        said = [idle.say("[[say one]]"), other.say("[[say two]]")]
        wait_until(lambda: gateway.ask_ready() != "ready", PROBE_SECONDS)
        told = [gateway.ask_ready() for _ in range(3)]
        assert all("The store has not answered" in one for one in told), told
    idle.wait_dealt(said[0], seconds=THAW_SECONDS)
    other.wait_dealt(said[1], seconds=THAW_SECONDS)
    gateway.wait_probe()
    wait_quiet(gateway.home, people)
    assert [shown.outgoing.text for shown in (*idle.shown, *other.shown)] == ["before", "one", "two"]
