"""C7, C10: the gateway is killed while an answer comes, and the next one goes on: everybody has the text once."""

from contextlib import closing
from pathlib import Path

import pytest
from gateway_process import GatewayProcess, wait_quiet
from onlookers import Terminals
from waiting import wait_until

from hermes_base.store_place import find_place
from hermes_base.turn.journal import shown_text
from hermes_lab.server import LabServer
from hermes_state.sql.store_sql import Store

LONG = "\n".join(f"§first {number} of the lines" for number in range(12))
OTHER = "§second and for good, end-0"
TOOL = {"name": "todo", "arguments": {"action": "list"}}
KEY = "agent:main:local:dm:one"


def read_texts(home: Path) -> list[str]:
    with closing(Store.open_readonly(find_place(home))) as store:
        (session,) = store.sessions()
        rows = store.load(session.id).rows
    return [text for row in rows if row.message["role"] == "assistant" and (text := shown_text(row).strip())]


def play(home: Path, lab: LabServer, *, seen: int, works: bool, same: bool) -> None:
    """Kill the gateway after so many characters of the last text have come."""
    first = [{"text": "§zero, I look.", "tool_calls": [TOOL]}] if works else []
    slow = {"text": LONG, "chunks": 60, "stall_between": 0.03}
    lab.set_plan([*first, slow, {"text": LONG if same else OTHER, "chunks": 5, "times": 0}])
    with GatewayProcess(home, lab.base_url) as gateway:
        gateway.start()
        terminals = Terminals(home, "one", KEY)
        terminals.client.submit("Well?")
        wait_until(lambda: terminals.streamed > seen + (15 if works else 0), 60)
        gateway.kill()
        gateway.start()
        terminals.wait_idle()
        wait_quiet(home, [])
        texts = read_texts(home)
        assert texts == [*(["§zero, I look."] if works else []), LONG if same else OTHER]
        terminals.check(texts, texts[-1:])
        terminals.close()
        assert gateway.terminate() == 0


@pytest.mark.slow
@pytest.mark.parametrize(("seen", "works", "same"), [(1, False, True), (150, True, False)])
def test_c7_a_killed_gateway_leaves_no_second_text(
    home: Path, lab: LabServer, seen: int, works: bool, same: bool
) -> None:
    play(home, lab, seen=seen, works=works, same=same)


@pytest.mark.soak
@pytest.mark.parametrize("seen", range(1, len(LONG), 30))
@pytest.mark.parametrize("works", [True, False])
@pytest.mark.parametrize("same", [True, False])
def test_c7_a_gateway_that_is_killed_anywhere_leaves_no_second_text(
    home: Path, lab: LabServer, seen: int, works: bool, same: bool
) -> None:
    play(home, lab, seen=seen, works=works, same=same)
