"""Programs of two layouts on one store of either engine: what a newer one has only added is no business of an older
one; what an older one could not use is neither opened by it nor made beside it (H4, I5)."""

from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest
from postgres_server import get_server
from store_places import ENGINES, SQLITE, read_rows, write_rows
from test_older_program import work

from hermes_base.errors import StoreFailure
from hermes_base.store_place import is_address
from hermes_constants import STORE_FILE
from hermes_state.sql import schema
from hermes_state.sql.schema import MIGRATIONS, SCHEMA_VERSION, Migration
from hermes_state.sql.store_sql import Store
from hermes_state.transfer.moving import move_store, save_as_file
from hermes_state.turns import NodeInfo

NEXT = SCHEMA_VERSION + 1
ADDED = (
    "alter table inbox add column heard_by text not null default ''",
    "create index inbox_heard_by on inbox(heard_by)",
    "create table visitor (id text primary key, name text not null) without rowid",
)
LAYOUT = "select value from meta where key = 'schema'"


@pytest.fixture(params=ENGINES)
def place(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """Of its own: no other test meets what is added here."""
    return str(tmp_path / "home" / STORE_FILE) if request.param == SQLITE else get_server().make_database()


@contextmanager
def newer_program(min_reader: int = SCHEMA_VERSION) -> Iterator[None]:
    """Within the block, a store that is opened is opened by a program with one layout more."""
    made = (*MIGRATIONS, Migration(NEXT, min_reader, ADDED))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(schema, "MIGRATIONS", made)
        patch.setattr(schema, "SCHEMA_VERSION", NEXT)
        patch.setattr(schema.migrate, "__defaults__", (made,))
        yield


def test_what_is_only_added_is_no_business_of_this_program(place: str) -> None:
    """H4, I5, I1: it goes on while the layout is made under it, opens the newer one for writing and for reading, works
    on it, and leaves it as it is."""
    with closing(Store(place)) as before:
        if is_address(place):  # a file has one owner
            with newer_program(), closing(Store(place)):
                pass
        work(before, "before")
    with newer_program(), closing(Store(place)):
        pass
    write_rows(place, "insert into visitor (id, name) values ('v', 'Ann')")
    with closing(Store(place)) as store:
        session = work(store, "beside")
        with closing(Store.open_readonly(place)) as reader:
            assert reader.session(session) is not None
    assert read_rows(place, LAYOUT) == [(str(NEXT),)]
    assert set(read_rows(place, "select heard_by from inbox")) == {("",)}
    with newer_program(), closing(Store(place)) as newer:
        assert newer.session(session) is not None


def test_a_copy_that_would_leave_something_out_is_not_made(place: str, tmp_path: Path) -> None:
    """I6: neither a move nor a back-up by this program drops what a newer one has added."""
    with newer_program(), closing(Store(place)) as store:
        work(store, "newer")
    source, target = (place, tmp_path / "copy.db") if is_address(place) else (Path(place), get_server().make_database())
    with pytest.raises(StoreFailure, match="newer version of Hermes has added") as refused:
        move_store(source, target)
    assert refused.value.fix == "Update Hermes here, too."
    if is_address(place):
        with pytest.raises(StoreFailure, match="newer version of Hermes has added"):
            save_as_file(place, tmp_path / "kept.db")
    with newer_program(), closing(Store(place)) as store:
        assert len(store.sessions()) == 2


def test_what_this_program_could_not_use_is_refused(place: str) -> None:
    """H4, I5: for writing and for reading, with a sentence, and nothing is changed."""
    with newer_program(NEXT), closing(Store(place)) as store:
        work(store, "newer")
    for open_store in (Store, Store.open_readonly):
        with pytest.raises(StoreFailure, match=f"it needs layout {NEXT}, and this program knows up to") as refused:
            open_store(place)
        assert (refused.value.kept, refused.value.fix.split(",")[0]) == ("Nothing was changed.", "Update Hermes")
    assert read_rows(place, LAYOUT) == [(str(NEXT),)]


def test_what_living_gateways_could_not_use_is_not_made_beside_them() -> None:
    """I5: the newer program names them and waits for nobody; when they have left, it begins."""
    place = get_server().make_database()
    with closing(Store(place)) as store:
        node = store.turns.join(NodeInfo("1.0.0", address="attic:/home"))
        with newer_program(NEXT), pytest.raises(StoreFailure, match=r"attic:/home \(version 1\.0\.0\)") as refused:
            Store(place)
        assert "hermes gateway stop" in refused.value.fix
        assert read_rows(place, LAYOUT) == [(str(SCHEMA_VERSION),)]
        work(store, "going on")
        store.turns.leave(node)
    with newer_program(NEXT), closing(Store(place)):
        assert read_rows(place, LAYOUT) == [(str(NEXT),)]
