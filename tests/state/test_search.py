"""The search index of either engine: it is dropped and made anew while others write, and finds what there is."""

import threading
from collections.abc import Callable

import pytest

from hermes_base.errors import StoreFailure
from hermes_base.store_place import is_address
from hermes_base.turn.journal import Row
from hermes_state.sql import search_index
from hermes_state.sql.engines.engine import Sql, Transaction
from hermes_state.sql.store_sql import Store
from hermes_state.store import NewSession

CHAT = "agent:main:local:dm:1"


def say(text: str) -> Row:
    return Row({"role": "user", "content": text})


def begin(store: Store, *rows: Row) -> str:
    session = store.open_session(NewSession(CHAT)).id
    store.append(session, "w", 0, rows)
    return session


def check_index(store: Store, where: str) -> None:
    """What the engine itself says of its index, or that it holds no row that is gone."""
    if not is_address(where):
        store._db.run(Sql("insert into search (search) values ('integrity-check')"))
        return
    assert store._db.find("select count(*) from search where row_id not in (select id from message)") == [(0,)]


def write_meanwhile(store: Store, work: Callable[[], None]) -> int:
    """Append rows, and now and then delete some, until `work` is done; the number of rows that stay."""
    done = threading.Event()
    kept = 0

    def run() -> None:
        try:
            work()
        finally:
            done.set()

    thread = threading.Thread(target=run)
    thread.start()
    while not done.is_set() or kept < 20:
        session = begin(store, say(f"fresh word {kept}"))
        if kept % 3 == 2:
            store.delete(begin(store, say("gone word")))
            store.delete(session)
            begin(store, say(f"fresh word {kept}"))
        kept += 1
    thread.join()
    return kept


def test_the_index_is_rebuilt_while_others_write_and_delete(store: Store, where: str) -> None:
    """F8: after a rebuild under way with writers every standing message is found once and no deleted one."""
    old = [begin(store, *(say(f"old word {n}") for n in range(100))) for _ in range(6)]

    def rebuild() -> None:
        store.drop_search()
        store.rebuild_search()
        store.delete(old[0])
        store.rebuild_search()

    fresh = write_meanwhile(store, rebuild)
    found = [(hit.session, hit.position) for hit in store.search("word", limit=10_000)]
    assert len(found) == len(set(found)) == 500 + fresh
    assert len(store.search("old", limit=10_000)) == 500
    assert store.search("gone") == []
    assert store.rebuild_search() == 500 + fresh
    check_index(store, where)


def test_a_drop_ends_a_rebuild(store: Store) -> None:
    """F8: who drops the index has the last word."""
    begin(store, *(say(f"word {n}") for n in range(500)))
    thread = threading.Thread(target=store.rebuild_search)
    thread.start()
    store.drop_search()
    thread.join()
    if store_has_index(store):  # the rebuild started after the drop
        store.drop_search()
    with pytest.raises(StoreFailure, match="dropped"):
        store.search("word")
    assert store.rebuild_search() == 500


def store_has_index(store: Store) -> bool:
    try:
        store.search("word")
    except StoreFailure:
        return False
    return True


def test_a_rebuild_that_was_broken_off_hides_nothing(store: Store) -> None:
    """F8: what it had not reached is found all the same, and once, and so is what comes."""
    sessions = [begin(store, say(f"word {n}")) for n in range(170)]
    store._db.write(search_index.restart)
    assert store._db.write(search_index.extend)[1] == search_index.BATCH
    store.delete(sessions[10])
    store.delete(sessions[169])
    begin(store, say("word in the place of the last"), say("word behind it"))
    assert len(store.search("word", limit=1000)) == 170
    begin(store, say("word to go on with"))
    assert len(store.search("word", limit=1000)) == 171
    assert store.rebuild_search() == 171
    assert len(store.search("word", limit=1000)) == 171


def test_what_was_said_just_now_is_found_as_the_index_finds_it(store: Store) -> None:
    """F8: the same words, whether a row is in the index yet or not."""
    texts = ["Größe der Straße", "東京タワー is tall", "beginning of a word", "two  spaces, one comma", "a", "x y z"]
    texts += ["мой чай живёт", "日本語が ガイド", "ΟΔΟΣ οδός", "Việt Nam", "İstanbul"]
    questions = ["grosse", "große", "strasse", "京タ", "begin", "ginning", "spaces-one", "a", "y z", "y-z", "z-y"]
    questions += ["мой", "чай", "живёт", "живет", "日本語が", "ガイド", "οδοσ", "οδος", "viet", "istanbul"]
    begin(store, *(say(text) for text in texts))
    looked_through = {asked: [hit.excerpt for hit in store.search(asked)] for asked in questions}
    store.rebuild_search()
    assert {asked: [hit.excerpt for hit in store.search(asked)] for asked in questions} == looked_through
    assert sum(map(len, looked_through.values())) > 12


def test_many_rows_at_once_are_all_found(store: Store, where: str) -> None:
    """E2: those of a branch, say; none of them is too far behind the index."""
    session = begin(store, *(say(f"needle{n}x") for n in range(6_000)))
    copy = store.branch(session).id
    for place in (0, 5, 1_500, 5_999):
        assert {hit.session for hit in store.search(f"needle{place}x")} == {session, copy}
    store.delete(session)
    assert {hit.session for hit in store.search("needle5x")} == {copy}
    check_index(store, where)


def test_a_rebuild_ends_when_the_last_rows_are_deleted_meanwhile(store: Store) -> None:
    """F8"""
    sessions = [begin(store, say(f"word {n}")) for n in range(10)]
    restart = search_index.restart

    def restart_and_delete(db: Transaction) -> int:
        last = restart(db)
        db.execute("delete from message where session = ?", (sessions[-1],))
        return last

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(search_index, "restart", restart_and_delete)
        assert store.rebuild_search() == 9
