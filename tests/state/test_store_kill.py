"""A writer that is killed at any moment leaves a whole store: what it was told is stored is there, and nothing half."""

import os
import random
import signal
import sqlite3
import subprocess
import sys
import time
from contextlib import closing

import pytest
from store_places import read_rows, wait_let_go

from hermes_base.store_place import is_address
from hermes_state.sql.store_sql import Store

APPENDER = """
import sys
from hermes_base.turn.journal import Row, UsageRow
from hermes_state.store import NewSession
from hermes_state.sql.store_sql import Store

store = Store(sys.argv[1])
info = store.current("c") or store.open_session(NewSession("c"))
version = store.load(info.id).version
print("start", version, flush=True)
while True:
    texts = [f"batch {version} part {part} " + "x" * 500 for part in range(3)]
    sent = [{"d": b"%d-%d" % (version, part)} for part in range(3)]
    rows = [Row({"role": "user", "content": text}, sent=body) for text, body in zip(texts, sent)]
    version = store.append(info.id, "child", version, rows, [UsageRow("p", "m", input_tokens=1)])
    print("done", version, flush=True)
"""

ROTATOR = """
import sys
from hermes_base.turn.journal import Row
from hermes_state.store import NewSession
from hermes_state.store_journal import StoreJournal
from hermes_state.sql.store_sql import Store

journal = StoreJournal(lambda: Store(sys.argv[1]), NewSession("c"))
transcript = journal.load()
print("start", transcript.session, flush=True)
while True:
    journal.append([Row({"role": "user", "content": "original"})])
    journal.freeze("tools", "d", b"[tools]")
    print("done", journal.rotate("compaction", [Row({"role": "user", "content": "summary"})]), flush=True)
"""


def run_and_kill(code: str, where: str, chance: random.Random) -> list[str]:
    """Start the writer, kill it at some moment after some line of it, and return the whole lines it printed. How fast
    the machine is does not count."""
    wanted = chance.randrange(1, 12)
    with subprocess.Popen([sys.executable, "-c", code, where], stdout=subprocess.PIPE) as child:
        assert child.stdout is not None
        descriptor = child.stdout.fileno()
        printed = b""
        while printed.count(b"\n") < wanted:
            printed += (piece := os.read(descriptor, 65536))
            assert piece, "the writer did not start"
        time.sleep(chance.uniform(0.0, 0.03))
        child.send_signal(signal.SIGKILL)
        while more := os.read(descriptor, 65536):
            printed += more
    wait_let_go(where)
    return printed.decode().rpartition("\n")[0].splitlines()


def check_file(where: str) -> None:
    """The file of the engine that has one."""
    if is_address(where):
        return
    with closing(sqlite3.connect(where)) as db:
        assert db.execute("pragma integrity_check").fetchall() == [("ok",)]
        assert db.execute("pragma foreign_key_check").fetchall() == []
        db.execute("insert into search (search) values ('integrity-check')")


@pytest.mark.slow
def test_a_killed_writer_loses_nothing_it_was_told(where: str) -> None:
    """I1, C10: after SIGKILL at random moments all acknowledged versions are there, batches whole, writing goes on."""
    chance, told = random.Random(7), 0
    for _ in range(12):
        lines = run_and_kill(APPENDER, where, chance)
        assert lines[0] == f"start {told}"
        told = int(lines[-1].split()[1])
        with closing(Store.open_readonly(where)) as reader:
            info = reader.current("c")
            assert info is not None
            assert info.version in (told, told + 3)  # or one commit more, of which it could not tell
            told = info.version
    with closing(Store(where)) as store:
        info = store.current("c")
        assert info is not None
        rows = store.load(info.id).rows
        wanted = [(first, part) for first in range(0, told, 3) for part in range(3)]
        assert [row.sent for row in rows] == [{"d": b"%d-%d" % pair} for pair in wanted]
        assert all(f"batch {first} part {part} " in row.message["content"]
                   for row, (first, part) in zip(rows, wanted, strict=True))  # fmt: skip
        assert store.usage(session=info.id).input_tokens * 3 == info.messages == told > 0
        assert len(store.search("batch", limit=100_000)) == told
    check_file(where)


@pytest.mark.slow
def test_a_killed_rotation_leaves_parent_or_child(where: str) -> None:
    """B5: after SIGKILL at random moments the conversation has exactly one open session, with its frozen parts."""
    chance = random.Random(11)
    for _ in range(10):
        lines = run_and_kill(ROTATOR, where, chance)
        opened = read_rows(where, "select id, parent from session where ended is null")
        orphans = read_rows(
            where,
            "select count(*) from session where ended is not null and successor not in (select id from session)",
        )
        assert len(opened) == 1
        assert orphans == [(0,)]
        with closing(Store.open_readonly(where)) as reader:
            current = reader.current("c")
            assert current is not None
            assert current.id == opened[0][0]
            assert lines[-1].split()[1] in (current.id, current.parent)
            if current.parent is not None:
                assert reader.load(current.id).frozen == {("tools", "d"): b"[tools]"}
    check_file(where)
