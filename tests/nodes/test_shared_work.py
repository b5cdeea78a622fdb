"""Who works on what: a fair share each, what is warm stays; a word for a turn on another gateway reaches it; a gateway
that drains hands over."""

import json
import shutil
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
from gateway_nodes import ACCOUNT, Nodes, run_hermes, running_nodes
from gateway_process import Person
from postgres_server import get_server
from waiting import wait_until

from gateway.core.fair_share import SLACK
from hermes_cli.chat.local_client import NotDone
from hermes_lab.server import LabServer

PEOPLE = 8
MOST = PEOPLE // 2 + SLACK  # conversations of one of two gateways
OWNERS = "select id, owner from conversation where owner is not null order by id"


@pytest.fixture
def two(tmp_path: Path, lab: LabServer) -> Iterator[Nodes]:
    with running_nodes(tmp_path, lab, get_server().make_database(), "a", "b") as nodes:
        yield nodes


def share_out(nodes: Nodes) -> None:
    """All have been answered once and once more; in between, whoever had taken too many has given some up."""
    ask_all(nodes, 1)

    def count_most() -> int:
        return max(Counter(owner for _, owner in nodes.read(OWNERS)).values())

    wait_until(lambda: count_most() <= MOST)
    ask_all(nodes, 2)


def ask_all(nodes: Nodes, number: int) -> None:
    """Everybody says something at once, and is answered."""
    for person in nodes.people:
        nodes.telegram.say(person, f"m{person}.{number} [[say answer {number}]]")
    wait_until(lambda: all(f"answer {number}" in nodes.seen(person) for person in nodes.people))


def test_conversations_are_shared_out_and_stay_where_they_are_warm(two: Nodes) -> None:
    """I2, B6: all are heard by one gateway, both work on them, and each goes on where it began. When one has died, the
    other has them all; when it is back, idle ones move until both have their share."""
    share_out(two)
    first = dict(two.read(OWNERS))
    nodes = {node.node: node for node in two.nodes.values()}
    assert set(first.values()) == nodes.keys()
    assert len(first) == len(two.people)
    ask_all(two, 3)
    assert dict(two.read(OWNERS)) == first
    gone = next(node for id, node in nodes.items() if id != two.wait_holder().node)
    gone.kill()
    ask_all(two, 4)
    assert len(set(dict(two.read(OWNERS)).values())) == 1
    two.start(gone.name)
    wait_until(lambda: len(two.read(OWNERS)) <= MOST)
    ask_all(two, 5)
    assert len(set(dict(two.read(OWNERS)).values())) == 2
    assert [two.seen(person) for person in two.people] == [[f"answer {n}" for n in range(1, 6)]] * len(two.people)


def test_a_gateway_that_begins_anew_after_a_kill_waits_for_no_lease(two: Nodes) -> None:
    """I2: in the same home; what it worked on and the account that it had are free as soon as it is back, and the
    gateways of other homes, a copied one among them, stay who they are."""
    killed, other = two.wait_holder(), next(node for node in two.nodes.values() if node is not two.wait_holder())
    former, stays = killed.node, other.node
    killed.kill()
    two.start(killed.name)
    assert {node for (node,) in two.read("select id from node")} == {killed.node, stays}
    assert two.read(f"select 1 from lease where owner = '{former}'") == []
    shutil.copytree(other.home, two.nodes["a"].home.with_name("c"), ignore=shutil.ignore_patterns("*.sock"))
    (two.nodes["a"].home.with_name("c") / "hermes.lock").unlink()  # else it is in use, and says so
    two.start("c")
    assert {node for (node,) in two.read("select id from node")} == {killed.node, stays, two.nodes["c"].node}
    ask_all(two, 1)


def test_stop_reaches_a_turn_on_another_gateway(two: Nodes) -> None:
    """B8: from a terminal and from the operator, both beside the gateway that does not run the turn; for what nobody
    runs they hear so."""
    here, there = two.nodes.values()
    person = Person(here.home, "ann")
    try:
        for stop in ("terminal", "operator"):
            said = person.say(f"m1.{stop} [[say a]] [[stall 600]] [[say never]]")
            person.wait_stored(said)
            wait_until(lambda: bool(here.operate("status")["working"]))
            if stop == "operator":
                told = there.operate("turns.stop", conversation=person.conversation)
                assert told == {"stopped": True}
            else:
                assert there.post("/web/stop", conversation=person.conversation) == {"stopped": True}
            person.wait_dealt(said)
        assert there.operate("turns.stop", conversation=person.conversation) == {"stopped": False}
        assert there.operate("turns.stop", conversation="agent:main:local:dm:nobody") == {"stopped": False}
    finally:
        person.close()


def test_who_asks_a_gateway_that_stands_still_is_told(two: Nodes) -> None:
    """B8: it did not take the word in time; what is said so is true later, too: nobody takes it any more."""
    here, there = two.nodes.values()
    person = Person(here.home, "ann")
    try:
        person.wait_stored(person.say("m1.1 [[stall 600]] [[say never]]"))
        wait_until(lambda: bool(here.operate("status")["working"]))
        with here.standing_still(), pytest.raises(NotDone, match="did not take it in time"):
            there.operate("turns.stop", conversation=person.conversation)
        assert two.read("select count(*) from control") == [(0,)]
    finally:
        person.close()


def test_an_approval_is_given_wherever_its_person_is(two: Nodes) -> None:
    """B8: the turn runs beside the gateway that has no bot, the question is sent and answered by the other."""
    holder = two.wait_holder()
    other = next(node for node in two.nodes.values() if node is not holder)
    share_out(two)
    owned = [str(key) for key, owner in two.read(OWNERS) if owner == other.node]
    key = owned[0]
    chat = next(person for person in two.people if key.endswith(f"/{person}"))
    asked = '[[tool clarify {"question": "Which one?", "choices": ["red", "blue"]}]]'
    two.telegram.say(chat, f"m1.3 {asked} [[then]] [[say done]]")
    wait_until(lambda: any("Which one?" in text for text in two.seen(chat)))
    shown = time.time()
    wait_until(lambda: time.time() > int(shown) + 1)  # Telegram's clock has whole seconds
    two.telegram.say(chat, "blue")
    wait_until(lambda: "done" in two.seen(chat))
    assert dict(two.read(OWNERS))[key] == other.node


def test_a_gateway_that_drains_hands_everything_over(two: Nodes) -> None:
    """I5, B7: its bot and its idle conversations go to the other, its turn ends here, and then it leaves; told twice it
    does nothing more. The last gateway does not drain: nobody would answer."""
    holder = two.wait_holder()
    other = next(node for node in two.nodes.values() if node is not holder)
    person = Person(holder.home, "ann")
    try:
        said = person.say("m1.slow [[stall 4]] [[say answer slow]]")
        person.wait_stored(said)
        wait_until(lambda: bool(holder.operate("status")["working"]))
        ask_all(two, 1)
        assert "takes nothing new any more" in run_hermes(holder, "gateway", "drain")
        assert "takes nothing new any more" in run_hermes(holder, "gateway", "drain")
        wait_until(other.has_account)
        listed = json.loads(run_hermes(other, "nodes", "--json"))["nodes"]
        assert [node["draining"] for node in listed if node["id"] == holder.node] == [True]
        assert [node["holds"] for node in listed if node["id"] == other.node] == [[ACCOUNT]]
        ask_all(two, 2)
        person.wait_dealt(said)
        person.wait_shown("answer slow")
        assert "is empty and has ended" in run_hermes(holder, "gateway", "drain", "--wait")
        assert set(dict(two.read(OWNERS)).values()) == {other.node}
        ask_all(two, 3)
        assert [two.seen(each) for each in two.people] == [[f"answer {n}" for n in (1, 2, 3)]] * len(two.people)
        assert "No other gateway works on this store" in run_hermes(other, "gateway", "drain")
        assert other.has_account()
    finally:
        person.close()
