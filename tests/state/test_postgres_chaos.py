"""Several processes on one PostgreSQL, and everything that happens to them: they are killed, taken for dead while they
live, frozen in the midst of a transaction, cut off from the reply, and the database goes down. Nothing is lost, nothing
is doubled, nothing stale is written; the audit that says so is tried on planted damage first."""

import random
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import closing, suppress
from urllib.parse import urlsplit, urlunsplit

import pytest
from postgres_audit import audit
from postgres_server import PostgresServer, get_server
from quick_folder import QUICK_FOLDER
from store_places import read_rows, write_rows
from turn_bench import ACCOUNT, CHAT, USAGE, answer, say, written

from hermes_base.errors import Fenced, StoreFailure
from hermes_state.sql.engines.engine import Sql, Transaction
from hermes_state.sql.store_sql import Store
from hermes_state.store import NewSession
from hermes_state.turns import NodeInfo

LIMIT = 90.0  # seconds; ends only what hangs
CHATS, MESSAGES = 6, 20  # of each chat
NAMES = [f"c{chat}/{number}/1" for number in range(MESSAGES) for chat in range(CHATS)]

WORKER = f"""
import random, sys, time
from hermes_base.errors import Fenced, StoreFailure
from hermes_base.inbound import Address, Outgoing
from hermes_base.turn.journal import Row, UsageRow
from hermes_state.sql.store_sql import Store
from hermes_state.turns import NodeInfo, Written

def say(*words):
    print(*words, flush=True)

def keep(call, *given):
    while True:
        try:
            return call(*given)
        except Fenced:
            raise
        except StoreFailure:
            time.sleep(0.02)

store = keep(Store, sys.argv[1])
turns, chance = store.turns, random.Random(sys.argv[2])
node = keep(turns.join, NodeInfo("1"))
say("node", node)
names = {NAMES!r}

def work(claim):
    for waits in keep(turns.waiting, claim):
        seq, name = waits.seq, waits.body
        turn = keep(turns.begin, claim, [seq])
        if turn is None:
            continue
        session = keep(store.current, claim.conversation).id
        version = keep(store.load, session).version
        if seq not in turn.taken:
            row = Row({{"role": "user", "content": name}}, inbox=(seq,))
            try:
                version = turns.append(claim, seq, Written(session, node, version, [row]))
            except Fenced:
                raise
            except StoreFailure:  # it is there or not, which the next attempt sees
                return
        answers = [Outgoing(Address("t", "b", claim.conversation), name)]
        rows = [Row({{"role": "assistant", "content": name}})]
        keep(turns.complete, claim, [seq], Written(session, node, version, rows), answers, [UsageRow("p", "m")])
        say("done", name)

while True:
    if names:
        name = names.pop(0)  # every process stores every message, about at the same time
        keep(turns.accept, name.partition("/")[0], "t:b", name, name, chance.choice(["", node]))
        say("told", name)
    if not keep(turns.heartbeat, node):
        node = keep(turns.join, NodeInfo("1"))
        say("node", node)
    claims = keep(turns.claim, node, 2) + keep(turns.ready, node)
    if not names and not claims:
        time.sleep(0.05)
    for claim in claims:
        try:
            work(claim)
        except Fenced:
            say("fenced")
"""


class Worker:
    def __init__(self, address: str, number: int) -> None:
        self.lines: list[str] = []
        self._more = threading.Condition()
        self._child = subprocess.Popen([sys.executable, "-c", WORKER, address, str(number)], stdout=subprocess.PIPE)
        self._reader = threading.Thread(target=self._read)
        self._reader.start()

    def _read(self) -> None:
        assert self._child.stdout is not None
        for line in self._child.stdout:
            with self._more:
                self.lines.append(line.decode().strip())
                self._more.notify_all()

    @property
    def node(self) -> str:
        """Its latest name; waits for the first."""
        with self._more:
            assert self._more.wait_for(self._list_nodes, LIMIT), "it has not begun"
            return self._list_nodes()[-1]

    def _list_nodes(self) -> list[str]:
        return [line.split()[1] for line in self.lines if line.startswith("node")]

    def kill(self) -> None:
        self._child.send_signal(signal.SIGKILL)
        self._child.wait()
        self._reader.join()
        assert self._child.stdout is not None
        self._child.stdout.close()


@pytest.fixture
def server() -> Iterator[PostgresServer]:
    """One that may go down."""
    get_server()
    made = PostgresServer(QUICK_FOLDER)
    yield made
    made.end()


def prepare(address: str) -> None:
    with closing(Store(address)) as store:
        for chat in range(CHATS):
            store.open_session(NewSession(f"c{chat}"))


def find_told(workers: list[Worker]) -> set[str]:
    return {line.split()[1] for worker in workers for line in worker.lines if line.startswith("told")}


def expire(address: str, node: str) -> None:
    """Its lease is over, whether it lives or not: the others need not wait for that."""
    write_rows(address, f"update node set expires = 0 where id = '{node}'")


def wait_answered(address: str, count: int, workers: list[Worker]) -> None:
    """Until so many are answered, by whomever."""
    end = time.monotonic() + LIMIT
    while read_rows(address, "select count(*) from inbox where done_epoch is not null")[0][0] < count:
        assert time.monotonic() < end, [worker.lines[-2:] for worker in workers]
        time.sleep(0.02)


@pytest.mark.slow
def test_nothing_is_lost_or_doubled_whatever_happens_to_processes_and_database(server: PostgresServer) -> None:
    """B6, B7, C1, C2, C3, C7, I2: three processes store and answer the same messages; they are killed, taken for dead
    in the midst of their work, and the database crashes twice."""
    address, chance = server.make_database(), random.Random(19)
    prepare(address)
    living = [Worker(address, number) for number in range(3)]
    gone: list[Worker] = []
    try:
        for turn, harm in enumerate(["kill", "zombie", "crash", "kill", "zombie", "kill", "crash", "zombie", "kill"]):
            worker = living[chance.randrange(len(living))]
            assert worker.node
            wait_answered(address, 12 * turn + chance.randrange(1, 12), living)
            if harm == "crash":
                server.crash()
                server.start()
            elif harm == "zombie":
                expire(address, worker.node)
            else:
                worker.kill()
                expire(address, worker.node)
                gone.append(worker)
                living[living.index(worker)] = Worker(address, 10 + turn)
        wait_answered(address, len(NAMES), living)
    finally:
        for worker in living:
            worker.kill()
    assert audit(address, find_told(living + gone)) == []
    assert find_told(living + gone) == set(NAMES)


DAMAGES = {
    "lost: c0/0/1": "delete from inbox where ext_id = 'c0/0/1'",
    "not answered: c1/3/1": "update inbox set done_epoch = null where ext_id = 'c1/3/1'",
    "places of c2": "update inbox set seq = 99 where ext_id = 'c2/4/1'",
    "pending in c3: 1": "update conversation set pending = 1 where id = 'c3'",
    "answered 2 times": "insert into outbox (conversation, seq, n, account, chat, body, state, created) "
    "select conversation, seq, 2, account, chat, body, state, created from outbox where id = 5",
    "answered 0 times": "delete from outbox where id = 7",
    "another's answer": "update outbox set body = '{}' where id = 9",
    "out of order": "update outbox set id = 10000 where id = (select min(id) from outbox where conversation = 'c4')",
    "positions of c5": "delete from message where conversation = 'c5' and position = 3",
    "a stale write: c0": "update message set epoch = 99 where conversation = 'c0' and position = 4",
    "an epoch that was never given: c1": "update message set epoch = 99 where conversation = 'c1'",
    "rows of turn 2 of c2": "update message set n = 7 where conversation = 'c2' and seq = 2 and n = 1",
    "paid 0 times": "delete from usage where conversation = 'c3' and seq = 1",
}


@pytest.fixture(scope="module")
def answered() -> str:
    """A store in which all was answered, and nothing happened."""
    address = get_server().make_database()
    prepare(address)
    with closing(Store(address, clock=lambda: 1e9)) as store:  # in which no node is ever taken for dead
        turns, node = store.turns, store.turns.join(NodeInfo("1"))
        for name in NAMES:
            conversation = name.partition("/")[0]
            seq = turns.accept(conversation, ACCOUNT, name, name, node)
            claim, current = turns.claim_one(node, conversation), store.current(conversation)
            assert claim is not None
            assert current is not None
            assert seq is not None
            rows = [say(name, seq), say(name, role="assistant")]
            turns.complete(claim, [seq], written(current.id, current.version, *rows), [answer(name)], [USAGE])
    return address


def test_the_audit_is_content_with_what_is_right(answered: str) -> None:
    assert audit(answered, NAMES) == []
    assert audit(answered, [*NAMES, "c0/77/1"]) == ["lost: c0/77/1"]


@pytest.mark.parametrize("named", DAMAGES)
def test_the_audit_finds_what_was_planted(answered: str, named: str) -> None:
    """On a copy of the store, which only that was done to."""
    server, source = get_server(), urlsplit(answered).path[1:]
    address = server.make_database(f"template {source}")
    write_rows(address, DAMAGES[named])
    assert any(told.startswith(named) for told in audit(address, NAMES))


# --- one thing at a time


def test_a_process_that_is_frozen_in_a_transaction_holds_nobody_up(server: PostgresServer) -> None:
    """B7, I2: the database ends its transaction; another takes the conversation over, and what the frozen one comes
    back with is refused."""
    address = server.make_database()
    with closing(Store(address)) as frozen, closing(Store(address, busy_timeout=LIMIT)) as other:
        node = frozen.turns.join(NodeInfo("1"))
        seq = frozen.turns.accept(CHAT, ACCOUNT, "7/1/1", "x", node)
        claim = frozen.turns.claim_one(node, CHAT)
        assert claim is not None
        assert seq is not None
        holds, thaw, outcomes = threading.Event(), threading.Event(), list[object]()

        def stand_still(db: Transaction) -> None:
            db.run(Sql("select 1 from conversation where id = ? for update", (CHAT,)))
            if not holds.is_set():
                holds.set()
                assert thaw.wait(LIMIT)
            db.run(Sql("update conversation set choices = ? where id = ?", ('{"late": 1}', CHAT)))

        def come_back() -> None:
            frozen._db.write(stand_still)
            try:
                outcomes.append(frozen.turns.complete(claim, [seq], answers=[answer("late")]))
            except Fenced:
                outcomes.append("fenced")

        thread = threading.Thread(target=come_back)
        thread.start()
        assert holds.wait(LIMIT)
        expire(address, node)
        successor = other.turns.join(NodeInfo("1"))
        taken = other.turns.claim_one(successor, CHAT)  # waits for the row until the server has freed it
        assert taken is not None
        assert taken.epoch == claim.epoch + 1
        other.turns.complete(taken, [seq], answers=[answer("in time")])
        assert other.turns.choices(CHAT) == {}
        thaw.set()
        thread.join(LIMIT)
        assert outcomes == ["fenced"]
        assert [row.outgoing.text for row in other.turns.outbox_since(CHAT, 0)] == ["in time"]


class Line:
    """A line to the server that can be cut when the next commit is done and before its writer hears of it."""

    def __init__(self, port: int) -> None:
        self._server_port = port
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = self._listener.getsockname()[1]
        self.cuts_next_commit = False
        self.cuts = 0
        self._ends: list[socket.socket] = []
        self._threads = [threading.Thread(target=self._accept)]
        self._threads[0].start()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                server = socket.create_connection(("127.0.0.1", self._server_port))
                ends = [client, server]
                self._ends += ends
                for source, target, asks in ((client, server, True), (server, client, False)):
                    thread = threading.Thread(target=self._pass_on, args=(source, target, asks, ends))
                    self._threads.append(thread)
                    thread.start()

    def _pass_on(self, source: socket.socket, target: socket.socket, asks: bool, ends: list[socket.socket]) -> None:
        with suppress(OSError):
            while data := source.recv(65536):
                if asks and self.cuts_next_commit and b"commit\0" in data:
                    self.cuts_next_commit = False
                    ends.append(source)  # the other direction sees that this line is to be cut
                if not asks and len(ends) > 2:
                    self.cuts += 1
                    break
                target.sendall(data)
        for end in ends[:2]:
            with suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        with suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        for thread in self._threads:
            thread.join(LIMIT)
        for end in self._ends:
            end.close()


def test_a_turn_whose_last_reply_was_lost_is_ended_once_by_its_repetition(server: PostgresServer) -> None:
    """C7, B7: the writer is told that nobody knows, repeats the call under its epoch, and nothing is there twice."""
    address = server.make_database()
    line = Line(server.port)
    parts = urlsplit(address)
    through = urlunsplit(parts._replace(netloc=parts.netloc.replace(f":{server.port}", f":{line.port}")))
    with closing(Store(through)) as store:
        session, node = store.open_session(NewSession(CHAT)).id, store.turns.join(NodeInfo("1"))
        line.cuts_next_commit = True
        with pytest.raises(StoreFailure, match="as a whole, or nothing of it"):
            store.turns.accept(CHAT, ACCOUNT, "7/1/1", "x", node)
        assert store.turns.accept(CHAT, ACCOUNT, "7/1/1", "x", node) is None
        claim = store.turns.claim_one(node, CHAT)
        assert claim is not None
        done = written(session, 0, say("x", 1), say("y", role="assistant"))
        line.cuts_next_commit = True
        with pytest.raises(StoreFailure, match="as a whole, or nothing of it"):
            store.turns.complete(claim, [1], done, [answer("7/1/1")], [USAGE])
        assert store.turns.complete(claim, [1], done, [answer("7/1/1")], [USAGE]) == 2
    line.close()
    assert line.cuts == 2
    assert audit(address, ["7/1/1"]) == []
