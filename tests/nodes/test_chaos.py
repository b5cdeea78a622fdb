"""Several gateways on one database while people talk to their bot, and everything that happens to them: they are
killed, stand still beyond their lease, are cut off from the database, the database goes down, one joins and one drains.
Nothing is lost, nothing is doubled but what is marked, nothing is out of order; the audit that says so is tried on
planted damage first."""

import os
import random
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from cut_line import CutLine
from gateway_nodes import Nodes, run_hermes
from nodes_audit import MARKED, audit_chat, audit_store
from postgres_server import PostgresServer, get_server
from talkers import EACH_ALONE, PATIENCE, BotTalker
from waiting import wait_until

from hermes_lab.chats.telegram.api_values import POLLERS
from hermes_lab.server import LabServer
from hermes_state.turns import LEASE_SECONDS

SEED = int(os.environ.get("HERMES_KILL_SEED", "0")) or int.from_bytes(os.urandom(3), "big")
KILL, STOP, FREEZE, CRASH = "kill", "stand still", "freeze", "crash"
TAKEOVER = 10.0


@pytest.fixture
def server() -> Iterator[PostgresServer]:
    """One of its own, since it is to crash."""
    get_server()  # skips where there is none
    made = PostgresServer()
    yield made
    made.end()


@dataclass
class Storm:
    """What happens to the gateways, one thing after the other."""

    nodes: Nodes
    server: PostgresServer
    lines: dict[str, CutLine]
    chance: random.Random = field(default_factory=lambda: random.Random(SEED))
    outages: list[tuple[float, float]] = field(default_factory=list)  # of the database

    def harm(self, kind: str) -> None:
        name = self.chance.choice(sorted(self.nodes.nodes))
        node = self.nodes.nodes[name]
        if kind == KILL:
            node.kill()
            time.sleep(self.chance.choice((0.0, 1.0)))
            self.nodes.start(name)
        elif kind == STOP:
            with node.standing_still():
                time.sleep(LEASE_SECONDS + 1.0)
        elif kind == FREEZE:
            with self.lines[name].frozen():
                time.sleep(LEASE_SECONDS + 1.0)
        elif kind == CRASH:
            began = time.monotonic()
            self.server.crash()
            time.sleep(self.chance.choice((0.0, 1.0)))
            self.server.start()
            self.outages.append((began, time.monotonic()))


def run_chaos(
    folder: Path, lab: LabServer, server: PostgresServer, *, people: int, messages: int, harms: list[str]
) -> tuple[list[BotTalker], Storm]:
    address = server.make_database()
    lines = {name: CutLine(server.port) for name in "abc"}
    with Nodes(folder, lab, address, people=people, **EACH_ALONE) as nodes:
        nodes.through = {name: line.port for name, line in lines.items()}
        nodes.start("a", "b")
        talkers = [
            BotTalker(nodes, number, person, count=messages, seed=SEED) for number, person in enumerate(nodes.people)
        ]
        storm = Storm(nodes, server, lines)
        nodes.start("c")  # one joins
        for harm in harms:
            time.sleep(storm.chance.uniform(0.5, 2.0))
            storm.harm(harm)
            assert [talker for talker in talkers if talker.problem] == []
        drained = nodes.nodes["a"]
        assert "has ended" in run_hermes(drained, "gateway", "drain", "--wait")
        for talker in talkers:
            talker.join()
        wait_until(lambda: audit_store(nodes.read) == [] or not is_open(nodes), PATIENCE)
        told = [problem for talker in talkers for problem in audit_chat(talker.seen, talker.tokens)]
        told += audit_store(nodes.read)
        assert told == [], f"seed {SEED}"
        assert [one for one in nodes.telegram.complaints if one["kind"] == POLLERS] == [], f"seed {SEED}"
    for line in lines.values():
        line.close()
    return talkers, storm


def is_open(nodes: Nodes) -> bool:
    waits = "select 1 from inbox where done_epoch is null union all select 1 from outbox where ended is null"
    return bool(nodes.read(waits))


def test_people_are_answered_once_and_in_order_whatever_happens(
    tmp_path: Path, lab: LabServer, server: PostgresServer
) -> None:
    """I2, I3, I5, B6, B7, C2, C3, C7: three gateways; killed, stopped, cut off; the database crashes; one joins, one
    drains."""
    run_chaos(tmp_path, lab, server, people=6, messages=6, harms=[KILL, STOP, CRASH, KILL])


@pytest.mark.soak
def test_the_same_for_long(tmp_path: Path, lab: LabServer, server: PostgresServer) -> None:
    """The same with 60 conversations and 2,400 messages; 99 of 100 are answered within ten seconds of a takeover and
    what a turn takes: what was said while the database was down is not counted."""
    harms = [KILL] * 60 + [STOP] * 25 + [FREEZE] * 20 + [CRASH] * 3
    random.Random(SEED).shuffle(harms)
    talkers, storm = run_chaos(tmp_path, lab, server, people=60, messages=40, harms=harms)
    waits = sorted(
        wait
        for talker in talkers
        for began, wait in talker.waits
        if not any(begin - TAKEOVER < began < end + TAKEOVER for begin, end in storm.outages)
    )
    print(f"{len(waits)} waits, the median {waits[len(waits) // 2]:.1f} s, the longest {waits[-1]:.1f} s")


# --- the audit, on planted damage


SEEN = ["answer m0.1", "going on", "answer m0.2", f"{MARKED}\nanswer m0.2", "answer m0.3"]
TOKENS = ["m0.1", "m0.2", "m0.3"]


@pytest.mark.parametrize(
    ("seen", "told"),
    [
        (SEEN, []),
        (SEEN[:-1], ["lost: m0.3"]),
        ([*SEEN, "answer m0.1"], ["doubled: m0.1"]),
        ([SEEN[2], SEEN[0], SEEN[4]], ["out of order: m0.1"]),
        ([*SEEN, "answer m7.1"], ["nobody asked: m7.1"]),
    ],
)
def test_the_audit_of_a_chat_finds_what_was_planted(seen: list[str], told: list[str]) -> None:
    assert audit_chat(seen, TOKENS) == told


DAMAGES = {
    "not dealt with": "update inbox set done_epoch = null where seq = 1",
    "not sent": "update outbox set ended = null where id = (select min(id) from outbox)",
    "still pending": "update conversation set pending = 1",
    "places": "delete from inbox where seq = 2",
    "a stale write": "update message set epoch = 99 where position = 0",
    "done under": "update inbox set done_epoch = 99 where seq = 1",
    "2 answers": "insert into outbox (conversation, seq, n, account, chat, body, state, created, ended) "
    "select conversation, seq, 7, account, chat, body, state, created, ended from outbox where seq = 1",
}


def test_the_audit_of_the_store_finds_what_was_planted(tmp_path: Path, lab: LabServer) -> None:
    """On a store that a gateway has filled, and that was right before."""
    with Nodes(tmp_path, lab, get_server().make_database()) as nodes:
        nodes.start("a")
        for number in (1, 2):
            nodes.ask(nodes.people[0], f"m0.{number} [[say answer m0.{number}]]", f"answer m0.{number}")
        wait_until(lambda: not is_open(nodes))
        nodes.nodes["a"].terminate()
        assert audit_store(nodes.read) == []
        for named, damage in DAMAGES.items():
            assert any(told.startswith(named) for told in nodes.try_on(damage, audit_store)), named
        assert audit_store(nodes.read) == []
