"""What the store does with sessions, transcripts, the ledger and search (I1)."""

import threading
from collections.abc import Callable
from types import MappingProxyType

import pytest

from hermes_base.errors import Fenced, StoreFailure
from hermes_base.turn.journal import Row, UsageRow, head_row, shown_text
from hermes_state.sql.store_sql import Store
from hermes_state.store import NewSession, UsageSum

CHAT = "agent:main:local:dm:1"


def say(text: str, role: str = "user", **fields: object) -> Row:
    return Row({"role": role, "content": text}, **fields)  # type: ignore[arg-type]


def begin(store: Store, *rows: Row, conversation: str = CHAT) -> str:
    session = store.open_session(NewSession(conversation)).id
    store.append(session, "w", 0, rows)
    return session


def texts(rows: object) -> list[str]:
    return [shown_text(row) for row in rows]  # type: ignore[attr-defined]


# --- sessions


def test_a_new_session_is_its_conversations_current_one(store: Store) -> None:
    assert store.current(CHAT) is None
    first = store.open_session(NewSession(CHAT, platform="telegram", model="m", title="t"))
    assert store.current(CHAT) == first == store.session(first.id)
    assert (first.platform, first.model, first.title, first.task) == ("telegram", "m", "t", first.id)
    assert (first.version, first.messages, first.preview, first.ended) == (0, 0, "", None)
    second = store.open_session(NewSession(CHAT))
    assert store.current(CHAT) == second
    assert store.session(first.id) == first
    assert store.session("nobody") is None


def test_ids_are_new_and_a_given_one_is_refused_twice(store: Store) -> None:
    ids = [store.open_session(NewSession(CHAT)).id for _ in range(30)]
    assert len(set(ids)) == 30
    assert sorted(ids, key=lambda made: made[:15]) == ids
    assert store.open_session(NewSession(CHAT, id="mine")).id == "mine"
    with pytest.raises(StoreFailure, match="mine already"):
        store.open_session(NewSession("other", id="mine"))
    assert store.current("other") is None


def test_a_child_belongs_to_its_parents_task_unless_told_otherwise(store: Store) -> None:
    parent = store.open_session(NewSession(CHAT))
    assert store.open_session(NewSession(CHAT, parent=parent.id)).task == parent.task
    assert store.open_session(NewSession(CHAT, id="branch", parent=parent.id, task="branch")).task == "branch"
    with pytest.raises(StoreFailure, match="no session gone"):
        store.open_session(NewSession(CHAT, parent="gone"))


def test_the_list_shows_the_newest_activity_first_and_no_empty_sessions(store: Store) -> None:
    old = begin(store, say("one"))
    store.open_session(NewSession(CHAT))
    new = begin(store, say("two"), conversation="other")
    assert [info.id for info in store.sessions()] == [new, old]
    store.append(old, "w", 1, [say("three")])
    assert [info.id for info in store.sessions()] == [old, new]
    assert [info.id for info in store.sessions(limit=1)] == [old]
    assert [info.id for info in store.sessions(conversation="other")] == [new]
    assert store.sessions(conversation="nobody") == []


def test_sessions_are_found_by_how_they_began(store: Store) -> None:
    def begin_so(text: str, conversation: str) -> str:
        return begin(store, say(text), say("yes", role="assistant"), conversation=conversation)

    first = begin_so("tell me of  cats", "api:a1")
    begin_so("tell me of dogs", "api:a2")
    begin_so("tell me of cats", "api:b1")
    left = begin_so("tell me of cats and mice", "api:a3")
    begin_so("something else", "api:a3")  # current in its place
    last = begin_so("tell me of cats, please", "api:a4")
    found = store.begun_so("tell me of cats", conversations="api:a", limit=10)
    assert [info.id for info in found] == [last, first]
    assert [info.id for info in store.begun_so("tell me of cats", conversations="api:a", limit=1)] == [last]
    store.resume("api:a3", left)
    assert left in [info.id for info in store.begun_so("tell me of cats", conversations="api:", limit=10)]


def test_the_list_entry_counts_what_people_see(store: Store) -> None:
    session = begin(
        store,
        Row({"role": "user", "content": "[12:00] hello\n there"}, shown="hello\n there"),
        Row({"role": "assistant", "content": "", "tool_calls": [{"id": "1"}]}),
        say("42", role="tool"),
        say("done", role="assistant"),
    )
    info = store.session(session)
    assert info is not None
    assert (info.messages, info.preview, info.version) == (2, "hello there", 4)
    store.append(session, "w", 4, [head_row(0), say("x" * 500)])
    info = store.session(session)
    assert info is not None
    assert (info.messages, info.version) == (1, 6)
    assert info.preview.startswith("xxx")
    assert len(info.preview) == 80
    store.append(session, "w", 6, [head_row(0)])
    assert store.sessions() == []


def test_the_list_entry_after_undo_is_what_still_stands(store: Store) -> None:
    """Also over a row that took back rows of its own, and where the first question was taken back."""
    session = begin(store, say("hi", role="assistant"), say("one"), say("yes", role="assistant"), say("two"))
    for base, rows, seen in (
        (4, [head_row(3)], (3, "one")),
        (5, [say("three"), say("so", role="assistant")], (5, "one")),
        (7, [head_row(4), say("four")], (5, "one")),
        (9, [head_row(1)], (1, "")),
        (10, [say("five")], (2, "five")),
    ):
        store.append(session, "w", base, rows)
        info = store.session(session)
        assert info is not None
        assert (info.messages, info.preview) == seen


def test_the_end_is_written_once_with_its_reason(store: Store) -> None:
    """B10: the boundary carries its reason, the first one stays, and closing the store writes none."""
    session = begin(store, say("one"))
    store.end(session, "new")
    store.end(session, "expired")
    info = store.session(session)
    assert info is not None
    assert info.end_reason == "new"
    assert info.ended is not None
    assert store.current(CHAT) is None
    assert store.append(session, "w", 1, [say("late row of a running turn")]) == 2
    with pytest.raises(StoreFailure, match="no session"):
        store.end("nobody", "new")


def test_ending_an_older_session_leaves_the_current_one(store: Store) -> None:
    old, new = begin(store), begin(store)
    store.end(old, "expired")
    current = store.current(CHAT)
    assert current is not None
    assert current.id == new


def test_resume_opens_an_ended_session_again(store: Store) -> None:
    session = begin(store, say("one"))
    store.end(session, "new")
    begin(store)
    resumed = store.resume(CHAT, session)
    assert (resumed.ended, resumed.end_reason) == (None, None)
    assert store.current(CHAT) == resumed
    assert store.append(session, "w", 1, [say("two")]) == 2


def test_resume_refuses_what_is_not_there(store: Store) -> None:
    session = begin(store, say("one"))
    with pytest.raises(StoreFailure, match="no session"):
        store.resume(CHAT, "nobody")
    with pytest.raises(StoreFailure, match="does not belong"):
        store.resume("other", session)
    assert store.current("other") is None


def test_a_title_can_be_set(store: Store) -> None:
    session = begin(store)
    store.set_title(session, "About \ud800 cats")
    info = store.session(session)
    assert info is not None
    assert info.title == "About \ufffd cats"
    with pytest.raises(StoreFailure):
        store.set_title("nobody", "x")


# --- transcripts


def test_what_is_appended_is_loaded(store: Store) -> None:
    """A1: rows come back as they were sent, byte for byte, for each dialect."""
    message = {"role": "assistant", "content": [{"type": "text", "text": "grüße 😀"}], "extra": {"a": [1, 2.5, None]}}
    session = begin(store, Row(message, shown="shown", sent={"d1": b'{"a":1}', "d2": b"\xff\x00"}), say("two"))
    transcript = store.load(session)
    first, second = transcript.rows
    assert (first.message, first.shown, first.position) == (message, "shown", 0)
    assert first.sent == {"d1": b'{"a":1}', "d2": b"\xff\x00"}
    assert (second.sent, second.shown, second.position) == ({}, None, 1)
    assert (transcript.session, transcript.conversation, transcript.task) == (session, CHAT, session)
    assert (transcript.version, transcript.writer, transcript.frozen) == (2, "w", {})


def test_the_version_counts_rows_and_names_the_writer(store: Store) -> None:
    """B2: version and writer are written with the rows, and usage alone moves neither."""
    session = begin(store)
    assert store.append(session, "a", 0, [say("one"), say("two")]) == 2
    assert store.append(session, "b", 2, [say("three")]) == 3
    assert store.append(session, "c", 3, [], [UsageRow("p", "m")]) == 3
    transcript = store.load(session)
    assert (transcript.version, transcript.writer) == (3, "b")


def test_a_writer_that_missed_a_row_is_fenced(store: Store) -> None:
    """B2: who has not seen the newest row writes nothing, neither rows nor usage."""
    session = begin(store, say("one"))
    for base in (0, 2):
        with pytest.raises(Fenced):
            store.append(session, "late", base, [say("lost")], [UsageRow("p", "m")])
    assert texts(store.load(session).rows) == ["one"]
    assert store.usage().calls == 0
    assert store.search("lost") == []


def test_unknown_sessions_are_refused_by_name(store: Store) -> None:
    with pytest.raises(StoreFailure, match="no session nobody"):
        store.load("nobody")
    with pytest.raises(StoreFailure, match="no session nobody"):
        store.history("nobody")
    with pytest.raises(StoreFailure, match="no session nobody"):
        store.append("nobody", "w", 0, [say("x")])
    with pytest.raises(StoreFailure, match="no session nobody"):
        store.freeze("nobody", -1, "d", b"x")
    with pytest.raises(StoreFailure, match="no session nobody"):
        store.rotate("nobody", "w", 0, "compaction", [])


def test_undo_takes_back_and_keeps_everything(store: Store) -> None:
    """E2: a taken-back row is gone from the transcript and stays in the history and in search."""
    session = begin(store, say("one"), say("two", sent={"d": b"2"}), say("three"))
    assert store.append(session, "w", 3, [head_row(1), say("four")]) == 5
    transcript = store.load(session)
    assert texts(transcript.rows) == ["one", "four"]
    assert [row.position for row in transcript.rows] == [0, 4]
    assert transcript.version == 5
    history = list(store.history(session))
    assert [row.kind for row in history] == ["message", "message", "message", "head", "message"]
    assert [row.position for row in history] == [0, 1, 2, 3, 4]
    assert history[1].sent == {"d": b"2"}
    assert [hit.position for hit in store.search("three")] == [2]


def test_a_long_history_is_whole(store: Store) -> None:
    """E2: the history is read page by page without a gap."""
    session = begin(store, *(say(f"row {n}") for n in range(450)))
    history = store.history(session)
    store.append(session, "w", 450, [say("later")])
    assert texts(history) == [f"row {n}" for n in range(450)]


def test_rows_that_could_not_be_read_back_are_refused_whole(store: Store) -> None:
    session = begin(store)
    for bad in (Row({"role": "user", "content": b"x"}), Row({}, kind="head"), head_row(-1)):
        with pytest.raises(StoreFailure):
            store.append(session, "w", 0, [say("good"), bad])
    assert store.load(session).version == 0


def test_the_store_keeps_its_own_copy(store: Store) -> None:
    message = {"role": "user", "content": "as sent", "deep": MappingProxyType({"a": 1})}
    session = begin(store, Row(message))
    message["content"] = "changed"
    store.load(session).rows[0].message["deep"]["a"] = 2
    assert store.load(session).rows[0].message == {"role": "user", "content": "as sent", "deep": {"a": 1}}


def test_broken_text_is_stored(store: Store) -> None:
    """Lone surrogates and NUL come back in the message; what people and search see of them is valid text."""
    row = Row({"role": "user", "content": "bad \ud83d text \0 end \udc00"}, shown="see \udfff \0 this")
    session = begin(store, row, say("also \ud800 plain"))
    first, second = store.load(session).rows
    assert first.message == row.message
    assert first.shown == "see \ufffd \ufffd this"
    assert second.message["content"] == "also \ud800 plain"
    assert [hit.position for hit in store.search("plain \ud800")] == [1]
    info = store.session(session)
    assert info is not None
    assert info.preview == "see \ufffd \ufffd this"


# --- bytes that were sent


def test_frozen_parts_come_back_as_they_were(store: Store) -> None:
    """A6: tools and system are kept by content hash for each dialect."""
    session = begin(store, say("one"))
    tools = store.freeze(session, -2, "d1", b"[tools]")
    assert store.freeze(session, -1, "d1", b"system") != tools
    assert store.freeze(session, -2, "d2", b"[tools]") == tools
    assert store.freeze(session, 0, "d2", b"row") == store.freeze(session, 0, "d2", b"row")
    transcript = store.load(session)
    assert transcript.frozen == {
        ("tools", "d1"): b"[tools]",
        ("tools", "d2"): b"[tools]",
        ("system", "d1"): b"system",
    }
    assert transcript.rows[0].sent == {"d2": b"row"}
    assert transcript.version == 1


def test_a_part_that_is_frozen_again_is_replaced(store: Store) -> None:
    session, other = begin(store), begin(store)
    store.freeze(session, -2, "d", b"old")
    store.freeze(other, -2, "d", b"old")
    store.freeze(session, -2, "d", b"new")
    assert store.load(session).frozen == {("tools", "d"): b"new"}
    assert store.load(other).frozen == {("tools", "d"): b"old"}


@pytest.mark.parametrize("place", [-3, 1, 99])
def test_nothing_is_frozen_where_there_is_no_row(store: Store, place: int) -> None:
    session = begin(store, say("one"))
    with pytest.raises(StoreFailure):
        store.freeze(session, place, "d", b"x")


# --- rotation


def test_rotation_closes_the_parent_and_opens_the_child(store: Store) -> None:
    """B5, E2: one step from parent to child; the child starts with the same frozen parts, the parent stays readable."""
    session = begin(store, say("original words", sent={"d": b"row"}))
    store.set_title(session, "title")
    store.freeze(session, -2, "d", b"[tools]")
    child = store.rotate(session, "w2", 1, "compaction", [say("summary"), say("kept", sent={"d": b"row"})])
    assert (child.parent, child.task, child.conversation, child.title) == (session, session, CHAT, "title")
    assert (child.version, child.messages, child.preview) == (2, 2, "original words")  # a list shows how it began
    assert store.current(CHAT) == child
    parent = store.session(session)
    assert parent is not None
    assert parent.end_reason == "compaction"
    transcript = store.load(child.id)
    assert transcript.frozen == {("tools", "d"): b"[tools]"}
    assert (transcript.writer, transcript.rows[1].sent) == ("w2", {"d": b"row"})
    assert texts(store.load(session).rows) == ["original words"]
    assert [hit.session for hit in store.search("original")] == [session]


def test_the_original_stays_searchable_after_many_rotations(store: Store) -> None:
    """E2"""
    first = session = begin(store, say("the needle"))
    for number in range(4):
        session = store.rotate(session, "w", 1, "compaction", [say(f"summary {number}")]).id
    assert [hit.session for hit in store.search("needle")] == [first]
    assert store.load(session).task == first
    assert texts(store.history(first)) == ["the needle"]


def test_a_late_rotation_is_fenced_and_changes_nothing(store: Store) -> None:
    """B5"""
    session = begin(store, say("one"))
    before = store.session(session)
    with pytest.raises(Fenced):
        store.rotate(session, "late", 0, "compaction", [say("summary")])
    assert store.session(session) == store.current(CHAT) == before
    assert [info.id for info in store.sessions()] == [session]


def test_nobody_writes_to_a_session_that_was_rotated(store: Store) -> None:
    """B2: who missed a rotation is fenced, although the parent got no row by it."""
    session = begin(store, say("one"))
    child = store.rotate(session, "w", 1, "compaction", [])
    with pytest.raises(Fenced, match=child.id):
        store.append(session, "late", 1, [say("lost")])
    with pytest.raises(Fenced, match=child.id):
        store.rotate(session, "late", 1, "compaction", [])
    assert store.current(CHAT) == child
    store.resume(CHAT, session)
    assert store.append(session, "w", 1, [say("the other way")]) == 2


def test_rotation_does_not_push_aside_what_the_user_started(store: Store) -> None:
    """B10: after `/new` a compaction that was under way takes no place, and its end reason stays."""
    session = begin(store, say("one"))
    store.end(session, "new")
    fresh = begin(store)
    with pytest.raises(Fenced, match="new"):
        store.rotate(session, "w", 1, "compaction", [])
    side = store.open_session(NewSession("side")).id
    store.open_session(NewSession("side", id="main"))
    store.rotate(side, "w", 0, "compaction", [])
    current, main = store.current(CHAT), store.current("side")
    assert current is not None
    assert main is not None
    assert (current.id, main.id) == (fresh, "main")


# --- delete


def test_delete_removes_a_session_and_keeps_the_ledger_and_shared_bytes(store: Store) -> None:
    """Usage rows stay with their task, and bytes that another session sent stay with it."""
    session, other = begin(store, say("secret", sent={"d": b"same"})), begin(store, say("open", sent={"d": b"same"}))
    store.charge(session, [UsageRow("p", "m", input_tokens=7)])
    store.resume(CHAT, session)
    assert store.delete(session) is True
    assert store.delete(session) is False
    assert store.session(session) is None
    assert store.current(CHAT) is None
    assert store.search("secret") == []
    assert store.load(other).rows[0].sent == {"d": b"same"}
    assert store.usage(session=session).input_tokens == store.usage(task=session).input_tokens == 7
    store.charge(session, [UsageRow("p", "m", input_tokens=1)])
    assert store.usage(session=session).input_tokens == 8


def test_new_rows_after_a_delete_are_found_once(store: Store) -> None:
    begin(store, say("first word"))
    gone = begin(store, say("second word"))
    store.delete(gone)
    kept = begin(store, say("third word"))
    assert store.search("word")[0].session == kept
    assert store.search("second") == []


# --- ledger


def test_usage_sums(store: Store) -> None:
    """A8, A9: the ledger adds up disjoint buckets by session, by task and by time; reasoning is a part of output."""
    session = begin(store)
    priced = UsageRow("p", "m", "turn", 1, 2, 4, 8, 16, cost=0.5)
    store.append(session, "w", 0, [say("one")], [priced])
    store.charge(session, [UsageRow("p", "m", "title", 32, cost=0.25), UsageRow("p", "m", settled=False)])
    child = store.rotate(session, "w", 1, "compaction", []).id
    store.charge(child, [priced])
    elsewhere = begin(store)
    store.charge(elsewhere, [priced])
    assert store.usage(session=session) == UsageSum(3, 33, 2, 4, 8, 16, 0.75, unpriced=1, unsettled=1)
    assert store.usage(task=session).calls == 4
    assert store.usage(session=child, task=session).calls == 1
    assert store.usage(session=elsewhere, task=session) == UsageSum()
    assert store.usage().cost == 1.75
    assert store.usage(since=1e12) == UsageSum()


# --- search


@pytest.fixture
def library(store: Store) -> Store:
    begin(
        store,
        say("The Quick brown fox"),
        say("Ein schöner Tag, naïve Café", role="assistant"),
        say("file_name.py has foo-bar and C++ (really)"),
        say("quick and dirty: 42 things", role="tool"),
        say("我喜欢中文搜索 and なまえ"),
        Row({"role": "user", "content": "hidden note"}, shown="visible note"),
    )
    return store


@pytest.mark.parametrize(
    ("words", "positions"),
    [
        ("quick", [3, 0]),
        ("QUICK", [3, 0]),
        ("fox quick", [0]),
        ("quick cat", []),
        ("qui", [3, 0]),
        ("qui fo", [0]),
        ("uick", []),
        ("q", []),
        ("foo-b", [2]),
        ("fo-bar", []),
        ("scho", [1]),
        ("schoner naive CAFÉ", [1]),
        ("foo-bar", [2]),
        ("bar-foo", []),
        ("name", [2]),
        ("42", [3]),
        ("中文", [4]),
        ("文中", []),
        ("喜欢 搜索", [4]),
        ("なまえ", [4]),
        ("note", [5]),
        ("hidden", []),
        ("", []),
        ("   ", []),
    ],
)
def test_search_finds_messages_with_all_words(library: Store, words: str, positions: list[int]) -> None:
    assert [hit.position for hit in library.search(words)] == positions


@pytest.mark.parametrize(
    "words",
    ['"', '"quick', "quick*", "-quick", "AND", "quick AND", "(", "quick)", "NEAR(a b)", "text:quick", "^quick", "a\0b",
     "' or 1=1 --", "{}", "\\", "+", "quick OR fox", "NOT", "\ud800", "«»", "*" * 500],
)  # fmt: skip
def test_no_input_breaks_search(library: Store, words: str) -> None:
    assert isinstance(library.search(words), list)


def test_titles_are_found_by_parts_of_their_words_and_stand_first(store: Store) -> None:
    boat, other = begin(store, say("hello")), begin(store, say("about varnish"), conversation="other")
    store.set_title(boat, "Sailboat varnish, naïve plan")
    hits = store.search("boat VARN")
    assert [(hit.session, hit.position, hit.role, hit.excerpt) for hit in hits] == [
        (boat, -1, "title", "«Sailboat» «varnish», naïve plan")
    ]
    assert [hit.session for hit in store.search("varn")] == [boat, other]
    assert [hit.session for hit in store.search("varn", limit=1)] == [boat]
    assert [hit.role for hit in store.search("naive")] == ["title"]
    assert store.search("varn", person="somebody") == []


def test_hits_show_the_found_words(library: Store) -> None:
    hit = library.search("quick THINGS")[0]
    assert (hit.role, hit.position) == ("tool", 3)
    assert hit.excerpt == "«quick» and dirty: 42 «things»"
    assert hit.created > 0
    assert library.search("中文")[0].excerpt == "我喜欢«中文»搜索 and なまえ"
    assert library.search("cafe")[0].excerpt.endswith("«Café»")
    assert library.search("caf")[0].excerpt.endswith("«Café»")


def test_an_excerpt_is_cut_around_the_first_find(store: Store) -> None:
    begin(store, say("before " * 100 + "\n needle \n" + "after " * 100))
    excerpt = store.search("needle")[0].excerpt
    assert "before «needle» after" in excerpt
    assert excerpt.startswith("…")
    assert excerpt.endswith("…")
    assert len(excerpt) < 200


def test_search_is_limited_to_the_newest(store: Store) -> None:
    session = begin(store, *(say(f"word {n}") for n in range(30)))
    assert [hit.position for hit in store.search("word")] == list(range(29, 9, -1))
    assert [(hit.session, hit.position) for hit in store.search("word", limit=1)] == [(session, 29)]


def test_the_index_can_be_dropped_and_rebuilt(library: Store) -> None:
    """F8: messages written without an index are found after the rebuild."""
    library.drop_search()
    with pytest.raises(StoreFailure, match="Rebuild"):
        library.search("quick")
    session = begin(library, say("quick again"), Row({"role": "assistant", "content": None}), head_row(5))
    assert library.rebuild_search() == 7
    assert [hit.position for hit in library.search("quick")] == [0, 3, 0]
    assert library.rebuild_search() == 7
    assert len(library.search("quick")) == 3
    assert library.delete(session)
    assert len(library.search("quick")) == 2


# --- threads and closing


def run_threads(work: Callable[[int], None], count: int) -> None:
    failures: list[BaseException] = []

    def run(number: int) -> None:
        try:
            work(number)
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=run, args=(number,)) for number in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []


def test_threads_append_to_their_own_sessions(store: Store) -> None:
    sessions = [begin(store, conversation=f"c{n}") for n in range(6)]

    def write(number: int) -> None:
        for base in range(0, 20, 2):
            store.append(sessions[number], f"w{number}", base, [say(f"{base}"), say("x")], [UsageRow("p", "m")])
            assert store.load(sessions[number]).version == base + 2

    run_threads(write, 6)
    assert all(store.load(session).version == 20 for session in sessions)
    assert store.usage().calls == 60


def test_threads_on_one_session_never_overwrite_each_other(store: Store) -> None:
    """B2: of two writers with the same base one is fenced; every acknowledged row is there once."""
    session = begin(store)
    written: list[str] = []

    def write(number: int) -> None:
        for count in range(10):
            while True:
                base = store.load(session).version
                try:
                    store.append(session, f"w{number}", base, [say(f"{number}-{count}")])
                except Fenced:
                    continue
                written.append(f"{number}-{count}")
                break

    run_threads(write, 4)
    assert sorted(texts(store.load(session).rows)) == sorted(written)
    assert len(written) == 40


def test_a_closed_store_says_so(store: Store) -> None:
    session = begin(store, say("one"))
    store.close()
    store.close()
    with pytest.raises(StoreFailure, match="closed"):
        store.load(session)
    with pytest.raises(StoreFailure, match="closed"):
        store.append(session, "w", 1, [say("two")])


@pytest.mark.parametrize("name", ["\0", "a\0b"])
def test_a_name_that_cannot_be_stored_is_nobodys(store: Store, name: str) -> None:
    """I1, H8: no engine fails at what somebody made up."""
    assert store.session(name) is None
    assert store.current(name) is None
    assert store.people.get(name) is None
    assert list(store.sessions(conversation=name)) == []
    assert store.search(f"word{name}") == []
