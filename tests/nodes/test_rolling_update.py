"""A rolling update: gateways of this version and of the next one, whose code is another, side by side on one database,
one after the other drained, ended and begun anew, while people go on talking. Then the step back."""

import json
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path

from gateway_nodes import Node, Nodes, run_hermes, running_nodes
from newer_build import COLUMN, FEATURE, VERSION, make_newer_build
from nodes_audit import audit_chat, audit_store
from postgres_server import get_server
from talkers import EACH_ALONE, PATIENCE, BotTalker, Talker, TerminalTalker, wait_all_answered
from waiting import wait_until

import hermes_constants
from hermes_cli.config.logs import FILE
from hermes_lab.server import LabServer

SIDE_BY_SIDE = f"Gateways of different versions work side by side: {hermes_constants.VERSION}, {VERSION}."
WITHHELD = f"Not used as long as a gateway is there that does not know it: {FEATURE}."
MARKED = f"select count(*) from inbox where {COLUMN} <> ''"


@contextmanager
def talking(nodes: Nodes) -> Iterator[list[Talker]]:
    """People at the bot and in a terminal of each gateway; afterwards everything that they said was answered once."""
    with ExitStack() as terminals:
        talkers: list[Talker] = [
            BotTalker(nodes, number, person, count=1000, seed=0) for number, person in enumerate(nodes.people)
        ]
        for number, node in enumerate(nodes.nodes.values(), len(talkers)):
            talker = terminals.enter_context(closing(TerminalTalker(node, number, count=1000)))
            talkers.append(talker)
        try:
            yield talkers
        finally:
            for talker in talkers:
                talker.hear_enough()
        for talker in talkers:
            talker.join()
        wait_until(lambda: audit_store(nodes.read) == [], PATIENCE)
        assert [told for talker in talkers for told in audit_chat(talker.seen, talker.tokens)] == []


def change_build(node: Node, build: Path | None) -> None:
    """What an operator does: the gateway is emptied and ended, and its home is begun anew with other code."""
    assert "is empty and has ended" in run_hermes(node, "gateway", "drain", "--wait")
    node.terminate()
    node.build = build
    node.start()


def test_a_rolling_update_loses_nothing_and_says_nothing_twice(tmp_path: Path, lab: LabServer) -> None:
    """I5, H4, B6, C1, C2: the first new gateway adds its column while the old one goes on. What is new is used only
    when the last old one has left, and no more when one is back."""
    build = make_newer_build(tmp_path)
    with running_nodes(tmp_path, lab, get_server().make_database(), "a", "b", people=4, **EACH_ALONE) as nodes:
        a, b = nodes.nodes.values()
        with talking(nodes) as talkers:
            change_build(a, build)
            told = run_hermes(b, "nodes")
            assert SIDE_BY_SIDE in told
            assert WITHHELD in run_hermes(a, "nodes")
            wait_all_answered(talkers)
            assert nodes.read(MARKED) == [(0,)]

            change_build(b, build)
            wait_until(lambda: nodes.read(MARKED) != [(0,)])
            assert json.loads(run_hermes(a, "nodes", "--json"))["withheld"] == []

            change_build(a, None)
            assert SIDE_BY_SIDE in run_hermes(a, "nodes")
            assert WITHHELD in run_hermes(b, "nodes")
            wait_until(lambda: f"not used any more: {FEATURE}" in (b.home / "logs" / FILE).read_text())
            ((marked,),) = nodes.read(MARKED)
            wait_all_answered(talkers)
            assert nodes.read(MARKED) == [(marked,)]
