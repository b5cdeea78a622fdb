"""A store of a gigabyte: a gateway on it takes messages at once, and lets go of what is old while others write."""

import os
import shutil
import sqlite3
import time
from contextlib import closing
from pathlib import Path

import pytest
from gateway_process import GatewayProcess, Person

from gateway.service.retention import Retention
from hermes_base.inbound import Address, Outgoing, write_outgoing
from hermes_base.settings import Settings
from hermes_constants import STORE_FILE
from hermes_lab.server import LabServer
from hermes_state.sql.store_sql import Store

GIGABYTE = 1 << 30
SESSIONS, ROWS_EACH = 4_000, 25
BODY = 10_000
LIMIT = 3.0
YEAR = 365 * 86_400.0


@pytest.fixture(scope="module")
def big_store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Years of conversations, written with the tables of this layout."""
    path = tmp_path_factory.mktemp("big") / STORE_FILE
    Store(path).close()
    with closing(sqlite3.connect(path, isolation_level=None)) as db:
        db.execute("pragma synchronous = off")
        db.execute("begin")
        for number in range(SESSIONS):
            _add_conversation(db, number)
        db.execute("commit")
        db.execute("pragma wal_checkpoint(truncate)")
    assert path.stat().st_size > GIGABYTE
    return path


def _add_conversation(db: sqlite3.Connection, number: int) -> None:
    name, session, then = f"agent:main:local:dm:old{number}", f"s{number:06}", time.time() - YEAR + number
    db.execute("insert into conversation (id, current, next_seq) values (?, ?, ?)", (name, session, ROWS_EACH))
    db.execute(
        "insert into session (id, conversation, task, platform, model, title, started, updated, version, messages, "
        "preview) values (?, ?, ?, 'local', 'm', '', ?, ?, ?, ?, 'words')",
        (session, name, session, then, then, ROWS_EACH, ROWS_EACH),
    )
    body = '{"role":"user","content":"' + f"word{number} ".ljust(BODY, "x") + '"}'
    answer = write_outgoing(Outgoing(Address("local", "main", f"old{number}"), "an old answer"))
    for n in range(ROWS_EACH):
        found = db.execute(
            "insert into message (session, position, conversation, seq, n, writer, kind, body, shown, created) "
            "values (?, ?, ?, ?, 1, 'w', 'message', ?, ?, ?)",
            (session, n, name, n + 1, body, f"word{number}", then),
        )
        db.execute("insert into search (rowid, text) values (?, ?)", (found.lastrowid, f"word{number}"))
        db.execute(
            "insert into inbox (conversation, seq, account, ext_id, body, accepted, done_epoch) "
            "values (?, ?, 'local:main', ?, '{}', ?, 1)",
            (name, n + 1, f"old{number}/{n}/", then),
        )
        db.execute(
            "insert into outbox (conversation, seq, n, account, chat, body, state, created, ended) "
            "values (?, ?, 1, 'local:main', ?, ?, 'sent', ?, ?)",
            (name, n + 1, f"old{number}", answer, then, then),
        )
        db.execute(
            "insert into usage (conversation, session, task, provider, model, kind, input_tokens, cache_read_tokens, "
            "cache_write_tokens, output_tokens, reasoning_tokens, settled, created) "
            "values (?, ?, ?, 'p', 'm', 'turn', 1, 1, 1, 1, 1, 1, ?)",
            (name, session, session, then),
        )


def forget_cached(path: Path) -> None:
    """Have the machine read the file from its disk again."""
    with path.open("rb") as file:
        os.fsync(file.fileno())
        os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


@pytest.mark.soak
def test_a_large_store_takes_messages_at_once(big_store: Path, lab: LabServer, home: Path) -> None:
    """F3: within 3 s of the start of the process a message is stored, on 1 GB that is not in memory; after a kill,
    too."""
    home.mkdir(parents=True)
    shutil.copyfile(big_store, home / STORE_FILE)
    with GatewayProcess(home, lab.base_url) as gateway:
        for life in range(3):
            forget_cached(home / STORE_FILE)
            begun = time.monotonic()
            gateway.start()
            person = Person(home, f"new{life}")
            said = person.say("hello")
            person.wait_stored(said)
            took = time.monotonic() - begun
            print(f"life {life}: stored {took:.2f} s after the start")
            person.wait_dealt(said)
            person.close()
            gateway.kill()
            assert took < LIMIT


@pytest.mark.soak
def test_a_large_store_lets_go_while_others_write(big_store: Path, tmp_path: Path) -> None:
    """F7: two hundred thousand old rows go, and no writer waits long for its turn."""
    with closing(Store(big_store)) as store:
        limits = Settings()
        slowest, gone = 0.0, 0
        steps = Retention(tmp_path, store, lambda: limits)._steps()
        for number, (_, count) in enumerate(steps):
            gone += count
            begun = time.monotonic()
            assert store.turns.accept("c", "a", f"1/{number}/", "x") == number + 1
            slowest = max(slowest, time.monotonic() - begun)
        print(f"{gone} rows went; the slowest writer waited {slowest:.2f} s")
        assert gone == 2 * SESSIONS * ROWS_EACH
        assert store.turns.depth()[0] == number + 1
        assert store.turns.latest("agent:main:local:dm:old0") == (ROWS_EACH, ROWS_EACH)
