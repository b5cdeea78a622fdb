"""The watchdog ends what stands still, whatever else goes on or goes wrong."""

import threading
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import pytest
from local_gateway import LocalHouse
from raw_client import RawClient
from waiting import wait_until

from gateway.core.clocks import Signs
from gateway.service import chores
from gateway.turns.run_turn import LiveTurn
from tools.process_registry import process_registry

pytestmark = pytest.mark.usefixtures("quick_clocks")
AddTool = Callable[[str, Callable[..., str]], None]


@pytest.fixture
def held() -> Iterator[threading.Event]:
    """Whoever waits for it stands still until the test is over."""
    over = threading.Event()
    yield over
    over.set()


def test_a_turn_that_cannot_be_looked_at_leaves_the_clocks_of_others_on(
    house: LocalHouse, held: threading.Event, monkeypatch: pytest.MonkeyPatch
) -> None:
    """C11: one turn raises whenever it is looked at; it and the one behind it are both ended by their clocks."""
    broken, other = house.client("broken"), house.client("other")
    look = LiveTurn.signs

    def raise_for_one(live: LiveTurn) -> Signs:
        if live._job.claim.conversation == broken.welcome.conversation:
            raise RuntimeError("this turn cannot be looked at")
        return look(live)

    monkeypatch.setattr(LiveTurn, "signs", raise_for_one)
    broken.say("[[stall 300]]")
    wait_until(lambda: broken.welcome.conversation in house.gateway.lanes.at_work)  # it is the first that is looked at
    other.say("[[stall 300]]")
    wait_until(lambda: was_ended(other) and was_ended(broken), 60)


def test_a_tool_that_hangs_is_ended_although_a_background_process_runs(
    house: LocalHouse, held: threading.Event, add_tool: AddTool
) -> None:
    """C12: only what the turn waits for is its activity. The process itself is left alone."""
    add_tool("hang", lambda args: str(held.wait()))
    client = house.client()
    client.say('[[tool process {"action": "start", "command": "sleep 300"}]] [[then]] [[tool hang {}]]')
    wait_until(lambda: was_ended(client), 60)
    [process] = process_registry.running()
    assert process.background
    process_registry.kill_all()


@pytest.mark.parametrize(
    "waiting",
    [
        '[[tool terminal {"command": "sleep 9"}]] [[then]] [[say it is done]]',
        '[[tool process {"action": "start", "command": "sleep 9"}]] [[then]] [[tool wait_for_it {}]] [[then]] '
        "[[say it is done]]",
    ],
    ids=["a command", "a background process"],
)
def test_a_command_that_is_waited_for_is_no_silence(
    house: LocalHouse, add_tool: AddTool, waiting: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """C12: three times the limit passes, and the child process is all that moves."""
    # Nothing moves until the process has begun: on a machine with much to do that may take longer than a second.
    monkeypatch.setattr(chores, "read_limits", lambda settings: chores.clocks.TurnTimes(silence=3.0))

    def wait_for_it(args: Mapping[str, Any], *, context: Any) -> str:
        from tools.builtin.process_tool import _wait  # the id is not known to a script

        [entry] = process_registry.background(context.task)
        return str(_wait({"id": entry.id, "timeout": 60}, context))

    add_tool("wait_for_it", wait_for_it)
    client = house.client()
    client.say(waiting)
    wait_until(lambda: any("it is done" in text for text in client.answers()), 60)
    assert not was_ended(client)


def was_ended(client: RawClient) -> bool:
    return any("Stopped by the watchdog" in text for text in client.answers())
