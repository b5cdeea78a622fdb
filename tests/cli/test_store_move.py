"""`hermes store move` from a file to PostgreSQL and back, under a gateway to which people go on talking: all of it
arrives and nothing is lost. How long nobody is heard is measured and told."""

import re
from contextlib import ExitStack, closing
from pathlib import Path

import pytest
from gateway_nodes import run_hermes
from gateway_process import GatewayProcess
from nodes_audit import audit_chat, audit_store
from postgres_server import get_server
from store_places import read_rows
from talkers import PATIENCE, TerminalTalker, wait_all_answered
from waiting import wait_until

from hermes_base.store_place import StorePlace, find_place
from hermes_base.turn.journal import Row
from hermes_constants import STORE_FILE
from hermes_lab.server import LabServer
from hermes_state.sql.engines.opening import open_engine
from hermes_state.sql.store_sql import Store
from hermes_state.store import NewSession
from hermes_state.transfer.copying import TableSums, count_all

EACH = 100  # messages of one old conversation
LONGEST = (
    "select max(gap) from (select accepted, accepted - lag(accepted) over (order by accepted) as gap from inbox) "
    "as gaps where accepted > "
)
SILENCE = re.compile(r"It took no messages for (\d+) s")


def fill(home: Path, messages: int) -> None:
    """Conversations that are there before anybody talks."""
    with closing(Store(home / STORE_FILE)) as store:
        for number in range(messages // EACH):
            session = store.open_session(NewSession(f"agent:main:local:dm:old{number}")).id
            text = f"word{number} and what was said as the"
            rows = [Row({"role": ("user", "assistant")[n % 2], "content": f"{text} {n}th"}) for n in range(EACH)]
            store.append(session, "w", 0, rows)


def count(place: StorePlace) -> TableSums:
    with closing(open_engine(place, 60.0, readonly=True)) as engine:
        return engine.read(count_all)


def list_messages(place: StorePlace) -> set[tuple[object, ...]]:
    return set(read_rows(str(place), "select id, session, position, body from message"))


def move_under_load(home: Path, gateway: GatewayProcess, messages: int) -> None:
    fill(home, messages)
    file, database = home / STORE_FILE, get_server().make_database()
    gateway.start()
    with ExitStack() as terminals:
        talkers = [terminals.enter_context(closing(TerminalTalker(gateway, n, count=1000))) for n in range(3)]
        for target, engine in ((database, "PostgreSQL"), ("file", "SQLite")):
            wait_all_answered(talkers)
            left = find_place(home)
            ((before,),) = read_rows(str(left), "select max(accepted) from inbox")
            told = run_hermes(gateway, "store", "move", target)
            assert f"The gateway goes on with it (process {gateway.pid})." in told
            silent = SILENCE.search(told)
            assert silent is not None, told
            assert engine in run_hermes(gateway, "store")
            wait_all_answered(talkers)
            ((longest,),) = read_rows(str(find_place(home)), f"{LONGEST}{before}")
            print(f"{messages:,} messages to {engine}: told {silent[1]} s, {longest:.1f} s between two messages")
            assert list_messages(left) <= list_messages(find_place(home))
        for talker in talkers:
            talker.hear_enough()
        for talker in talkers:
            talker.join()
        wait_until(lambda: audit_store(lambda query: read_rows(file, query)) == [], PATIENCE)
        assert [told for talker in talkers for told in audit_chat(talker.seen, talker.tokens)] == []
    assert gateway.terminate() == 0
    said = sum(len(talker.tokens) for talker in talkers)
    assert read_rows(file, "select count(*), count(distinct ext_id) from inbox") == [(said, said)]
    last = get_server().make_database()
    assert "Moved and compared" in run_hermes(gateway, "store", "move", last)
    assert count(file) == count(last)
    assert count(last)["message"].rows >= messages + 2 * said


def test_a_store_with_people_at_it_moves_there_and_back(home: Path, lab: LabServer) -> None:
    """I1, I6, C1, C2, C7: what was there before is there afterwards; what was said meanwhile is answered, once and in
    order; and a last copy beside nobody has the same counts and hashes."""
    with GatewayProcess(home, lab.base_url) as gateway:
        move_under_load(home, gateway, 2_000)


@pytest.mark.soak
def test_a_hundred_thousand_messages_move_there_and_back(home: Path, lab: LabServer) -> None:
    """The same with as many as years bring; how long nobody is heard is told (-s)."""
    with GatewayProcess(home, lab.base_url) as gateway:
        move_under_load(home, gateway, 100_000)
