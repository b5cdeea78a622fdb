"""Two gateways on one database: each has conversations of its own, one of them has the bot, and when it dies the other
goes on."""

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
from gateway_nodes import ACCOUNT, Nodes, run_hermes, running_nodes
from postgres_server import get_server
from waiting import wait_until

from hermes_cli.cmds.gateway.gateway_cmd import write_status
from hermes_lab.chats.telegram.api_values import POLLERS
from hermes_lab.server import LabServer


@pytest.fixture
def two(tmp_path: Path, lab: LabServer) -> Iterator[Nodes]:
    with running_nodes(tmp_path, lab, get_server().make_database(), "a", "b") as nodes:
        yield nodes


def list_living(nodes: Nodes) -> set[str]:
    living = "select id from node where expires > extract(epoch from statement_timestamp())"
    return {str(node) for (node,) in nodes.read(living)}


def test_one_bot_has_one_owner_and_another_when_that_one_dies(two: Nodes) -> None:
    """I2, I3, B7: both are nodes; one hears and sends for the bot. Killed, the other does, and answers what was said
    meanwhile; nobody else polled for the bot at any time, and nothing is said twice."""
    holder = two.wait_holder()
    (other,) = (node for node in two.nodes.values() if node is not holder)
    assert list_living(two) == {holder.node, other.node}
    ann = two.people[0]
    two.ask(ann, "m1.1 [[say answer one]]", "answer one")
    assert not other.has_account()
    assert two.read(f"select owner from lease where name = '{ACCOUNT}'") == [(holder.node,)]
    assert two.telegram.complaints == []
    holder.kill()
    two.ask(ann, "m1.2 [[say answer two]]", "answer two")
    assert other.has_account()
    two.start(holder.name)
    two.ask(ann, "m1.3 [[say answer three]]", "answer three")
    assert not holder.has_account()
    assert two.seen(ann) == ["answer one", "answer two", "answer three"]
    assert [each for each in two.telegram.complaints if each["kind"] == POLLERS] == []


def test_a_process_that_stood_still_lets_go_before_it_does_anything_else(two: Nodes) -> None:
    """I3, B7: stopped for longer than its lease, it wakes as one that is taken for dead: it disconnects, joins anew,
    and waits for the bot like everybody else."""
    holder = two.wait_holder()
    (other,) = (node for node in two.nodes.values() if node is not holder)
    before = holder.node
    os.kill(holder.pid, signal.SIGSTOP)
    try:
        two.ask(two.people[0], "m1.1 [[say answer one]]", "answer one")
    finally:
        os.kill(holder.pid, signal.SIGCONT)
    wait_until(lambda: holder.node != before)
    two.ask(two.people[0], "m1.2 [[say answer two]]", "answer two")
    assert other.has_account()
    wait_until(lambda: not holder.has_account())
    assert two.seen(two.people[0]) == ["answer one", "answer two"]


def test_a_gateway_that_ends_in_order_hands_the_bot_over_at_once(two: Nodes) -> None:
    """I3, I5: what it held is free when it leaves."""
    holder = two.wait_holder()
    (other,) = (node for node in two.nodes.values() if node is not holder)
    assert holder.terminate() == 0
    assert list_living(two) == {other.node}
    two.ask(two.people[0], "m1.1 [[say answer one]]", "answer one")


def test_status_and_doctor_say_who_has_which_account(two: Nodes) -> None:
    """I3, B7: on both, in words; a bot that is with the other gateway is no problem of this one."""
    holder = two.wait_holder()
    (other,) = (node for node in two.nodes.values() if node is not holder)
    for node in (holder, other):
        told = node.operate("status")
        lines = "\n".join(write_status(told))
        assert f"  {ACCOUNT}: {holder.node} (" in lines
        assert f"{holder.home})" in lines
        assert ("telegram (bot): another gateway has it" in lines) == (node is other)
        assert "Beside it: node " in lines
        said = run_hermes(node, "doctor")
        assert f"{ACCOUNT} is with the gateway at " in said
        assert "Telegram is not connected" not in said
        assert told["hints"] == ""
