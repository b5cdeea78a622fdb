"""Pages of a transcript and of the list of sessions: what is on them, and that they cost what is on them."""

import sqlite3
import time
from collections.abc import Sequence
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sqlite_file import explain
from store_places import ENGINES, new_place, try_many

from hermes_base.errors import StoreFailure
from hermes_base.turn.journal import MADE, Row, head_row, placed, text_of, visible
from hermes_state import paging
from hermes_state.sql import statements
from hermes_state.sql.store_sql import Store
from hermes_state.store import NewSession


def say(number: int) -> Row:
    role = "user" if number % 2 == 0 else "assistant"
    return Row({"role": role, "content": f"m{number}"}, sent={"chat": b"bytes %d" % number})


def fill(store: Store, rows: Sequence[Row]) -> str:
    session = store.open_session(NewSession("c")).id
    store.append(session, "w", 0, rows)
    return session


def list_texts(store: Store, session: str, **wanted: int | None) -> list[str]:
    return [str(paged.row.message["content"]) for paged in store.page(session, **wanted)]  # type: ignore[arg-type]


def test_a_page_is_the_end_of_the_transcript(store: Store) -> None:
    began = time.time()
    session = fill(store, [say(number) for number in range(10)])
    page = store.page(session, limit=3)
    assert [(paged.row.position, paged.row.message["content"]) for paged in page] == [(7, "m7"), (8, "m8"), (9, "m9")]
    assert all(not paged.row.sent and began <= paged.created <= time.time() for paged in page)
    assert list_texts(store, session, before=7, limit=3) == ["m4", "m5", "m6"]
    assert list_texts(store, session, before=2) == ["m0", "m1"]
    assert list_texts(store, session, before=0) == list_texts(store, session, limit=0) == []
    assert len(store.page(session)) == 10


def test_an_empty_session_has_an_empty_page_and_a_missing_one_is_told(store: Store) -> None:
    assert store.page(store.open_session(NewSession("c")).id) == []
    with pytest.raises(StoreFailure):
        store.page("nowhere")


def test_what_was_taken_back_is_on_no_page(store: Store) -> None:
    rows = [say(0), say(1), say(2), head_row(1), say(4), say(5), head_row(2), say(7)]
    session = fill(store, rows)
    assert list_texts(store, session) == ["m0", "m4", "m7"]
    assert list_texts(store, session, before=7, limit=1) == ["m4"]
    assert list_texts(store, session, before=4, limit=5) == ["m0"]


@given(st.lists(st.one_of(st.none(), st.integers(0, 12)), max_size=30), st.integers(0, 9), st.integers(-1, 31))
def test_pages_are_what_visible_says(keeps: list[int | None], limit: int, before: int) -> None:
    """Going back page by page shows each visible row once, in order, whatever was taken back."""
    rows = placed([say(n) if keep is None else head_row(keep) for n, keep in enumerate(keeps)], 0)
    heads = [paging.TakenBack(row.position, int(row.message["keep"])) for row in rows if row.kind == "head"]
    expected = [row.position for row in visible(rows)]
    standing = paging.find_standing(len(rows), heads)
    assert [position for run in standing for position in run] == expected
    end = None if before < 0 else before
    picked = [position for run in paging.pick_last(standing, end, limit) for position in run]
    earlier = [position for position in expected if end is None or position < end]
    assert picked == (earlier[-limit:] if limit else [])


def test_what_was_compacted_is_on_its_pages_and_what_the_model_gets_instead_is_not(store: Store) -> None:
    """E1, E2: whatever comes after it; the list says how much was said, and how it began."""
    session = fill(store, [say(number) for number in range(6)])
    store.append(session, "w", 6, [head_row(0, made=3), say(60), say(4), say(5)])
    store.append(session, "w", 10, [say(6)])
    said = [f"m{number}" for number in range(7)]
    assert list_texts(store, session, limit=99) == said
    assert [text_of(row.message) for row in store.load(session).rows] == ["m60", "m4", "m5", "m6"]
    assert list_texts(store, session, before=10, limit=2) == ["m4", "m5"]
    info = store.session(session)
    assert info is not None
    assert (info.messages, info.preview) == (7, "m0")
    store.append(session, "w", 11, [head_row(3)])  # taken back after it
    assert list_texts(store, session, limit=99) == said[:-1]
    store.append(session, "w", 12, [head_row(2)])  # what stood before it, too
    assert list_texts(store, session, limit=99) == said[:-2]
    assert [text_of(row.message) for row in store.load(session).rows] == ["m60", "m4"]


def test_a_copy_of_a_time_before_a_compaction_is_as_it_was_said(store: Store) -> None:
    """E2, B5: and one of now is as the model gets it."""
    session = fill(store, [say(number) for number in range(6)])
    store.append(session, "w", 6, [head_row(0, made=2), say(60), say(5), say(6)])
    texts = lambda before: [  # noqa: E731
        text_of(row.message) for row in store.load(store.branch(session, before=before).id).rows
    ]
    assert texts(4) == ["m0", "m1", "m2", "m3"]
    assert texts(9) == ["m60", "m5"]
    assert texts(None) == ["m60", "m5", "m6"]


STEPS = st.lists(
    st.one_of(
        st.just(("say", 0)),
        st.tuples(st.just("back"), st.integers(0, 4)),
        st.tuples(st.just("compact"), st.integers(1, 4)),
    ),
    max_size=25,
)


@given(STEPS)
def test_pages_hold_what_was_said_and_not_taken_back(steps: list[tuple[str, int]]) -> None:
    """E2: against a list of what people see, kept by hand: a compaction leaves it, whatever the model gets instead."""
    rows: list[Row] = []
    seen: list[int] = []
    for step, number in steps:
        standing = visible(placed(rows, 0))
        if step == "say":
            seen.append(len(rows))
            rows.append(say(len(rows)))
        elif step == "back":
            gone = min(number, len(standing))
            seen = seen[: max(0, len(seen) - gone)]
            rows.append(head_row(len(standing) - gone))
        else:
            rows += [head_row(0, made=number), *(say(len(rows) + place) for place in range(number))]
    heads = [
        paging.TakenBack(place, int(row.message["keep"]), int(row.message.get("made", 0)))
        for place, row in enumerate(rows)
        if row.kind == "head"
    ]
    assert [place for run in paging.find_said(len(rows), heads) for place in run] == seen
    standing_runs = paging.find_standing(len(rows), heads)
    assert [place for run in standing_runs for place in run] == [row.position for row in visible(placed(rows, 0))]


@pytest.mark.parametrize("engine", ENGINES)
def test_paging_back_through_a_store_shows_all(engine: str) -> None:
    def check(example: tuple[list[int | None], int]) -> None:
        keeps, limit = example
        with new_place(engine) as where, closing(Store(where)) as store:
            session = fill(store, [say(n) if keep is None else head_row(keep) for n, keep in enumerate(keeps)])
            seen: list[int] = []
            before: int | None = None
            while page := store.page(session, before=before, limit=limit):
                seen = [paged.row.position for paged in page] + seen
                before = seen[0]
            assert seen == [row.position for row in store.load(session).rows]

    keeps = st.lists(st.one_of(st.none(), st.integers(0, 6)), max_size=12)
    try_many(engine, 100, check, st.tuples(keeps, st.integers(1, 5)))


def test_a_page_reads_what_is_on_it(tmp_path: Path) -> None:
    """F3: a page finds its rows and those that take back by index; the bodies of the others are not read."""
    path = tmp_path / "store.db"
    with closing(Store(path)) as store:
        session = fill(store, [say(number) for number in range(20)])
        store.append(session, "w", 20, [head_row(18)])
        for statement in (statements.GET_HEADS, statements.GET_PAGE):
            plan = explain(path, statement)
            assert all(step.startswith("SEARCH") for step in plan), plan
        assert "message_head" in " ".join(explain(path, statements.GET_HEADS))
        with closing(sqlite3.connect(path)) as db:
            db.execute("update message set body = 'not JSON' where kind = 'message' and position < 10")
            db.execute("delete from sent")
            db.commit()
        assert list_texts(store, session, limit=8) == [f"m{number}" for number in range(10, 18)]


# --- the list of sessions


def test_sessions_can_be_paged_by_their_last_activity(store: Store) -> None:
    made = []
    for number in range(7):
        session = store.open_session(NewSession(f"c{number % 2}", person="p" if number % 2 else "")).id
        store.append(session, "w", 0, [say(0)])
        made.append(session)
        time.sleep(0.001)  # two never have the same time
    seen: list[str] = []
    before: float | None = None
    while page := store.sessions(limit=2, before=before):
        seen += [info.id for info in page]
        before = page[-1].updated
    assert seen == made[::-1]
    third = store.session(made[3])
    assert third is not None
    for wanted in ({"conversation": "c1"}, {"person": "p"}, {"conversation": "c1", "person": "p"}):
        older = store.sessions(before=third.updated, **wanted)  # type: ignore[arg-type]
        assert [info.id for info in older] == [made[1]]
    assert [info.id for info in store.sessions(before=third.updated, person="")] == [made[2], made[0]]


def test_search_finds_what_was_said_once(store: Store) -> None:
    """E2: also after a compaction that wrote it again for the model, and in a copy that began with that."""
    session = fill(store, [say(number) for number in range(4)])
    made = [replace(row, kind=MADE) for row in (say(60), say(2), say(3))]
    store.append(session, "w", 4, [head_row(0, made=3), *made])
    assert [(hit.session, hit.position) for hit in store.search("m2")] == [(session, 2)]
    assert store.search("m60") == []
    copy = store.branch(session).id
    assert {(hit.session, hit.position) for hit in store.search("m2")} == {(session, 2), (copy, 1)}
