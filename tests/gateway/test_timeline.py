"""A transcript as people see it: pure."""

from hypothesis import given
from hypothesis import strategies as st

from gateway.core.bursts import Item, text_of
from gateway.core.route import ConversationView, Standing
from gateway.core.timeline import (
    is_shortened,
    list_entries,
    list_exchanges,
    may_go_on,
    merge,
    same_talk,
    split_files,
)
from hermes_base.inbound import Address, FileRef, Inbound
from hermes_base.query_values import PastExchange, TimelineEntry
from hermes_base.turn.journal import Row
from hermes_state.store import PagedRow
from hermes_state.turns import Waiting

WORDS = st.text("ab \n.", min_size=1, max_size=20)
FILES = st.lists(st.builds(lambda n: FileRef(f"/home/uploads/{n}/x.png", f"{n}.png", "image"), st.integers(0, 9)))


def page(*messages: dict[str, object]) -> list[PagedRow]:
    return [PagedRow(Row(message, position=place), float(place)) for place, message in enumerate(messages)]


@given(st.text("ab \n", min_size=1).map(str.strip).filter(bool), FILES)
def test_files_are_found_in_the_text_that_the_model_reads(text: str, files: list[FileRef]) -> None:
    inbound = Inbound(Address("web", "web", "x"), "1", "owner", text, files=tuple(files))
    item = Item(Waiting(1, "", 0, False, 0.0, None), inbound, ConversationView(Standing("", "")))
    found_text, found = split_files(text_of([item]))
    assert found_text == text
    assert [(file.path, file.name, file.kind) for file in found] == [(one.path, one.name, one.kind) for one in files]


def test_a_call_without_a_result_is_open() -> None:
    call = {"id": "c", "function": {"name": "terminal", "arguments": "{}"}}
    (tool,) = list_entries(page({"role": "assistant", "content": "", "tool_calls": [call]}))
    assert (tool.kind, tool.name, tool.ok) == ("tool", "terminal", None)
    asked, answered = {"role": "assistant", "content": "", "tool_calls": [call]}, {"role": "tool", "tool_call_id": "c"}
    (failed,) = list_entries(page(asked, {**answered, "content": '{"error": "no"}'}))
    assert failed.ok is False


def test_words_of_the_house_to_the_model_are_not_shown() -> None:
    rows = [PagedRow(Row({"role": "user", "content": "go on"}, shown="", position=0), 0.0)]
    assert list_entries(rows) == []
    assert list_exchanges(paged.row for paged in rows) == []


@given(st.lists(st.floats(0, 9)), st.lists(st.floats(0, 9)))
def test_merging_keeps_all_and_each_order(times: list[float], notes: list[float]) -> None:
    entries = [TimelineEntry(f"m{n}", "user", at=at) for n, at in enumerate(sorted(times))]
    said = [TimelineEntry(f"o{n}", "note", at=at) for n, at in enumerate(sorted(notes))]
    merged = merge(entries, said)
    assert [entry for entry in merged if entry.kind == "user"] == entries
    assert [entry for entry in merged if entry.kind == "note"] == said
    assert [entry.at for entry in merged] == sorted([*times, *notes])


@given(st.lists(st.tuples(WORDS, st.lists(WORDS, max_size=3)), max_size=4))
def test_exchanges_hold_all_that_was_said(talk: list[tuple[str, list[str]]]) -> None:
    rows = []
    for asked, answers in talk:
        rows.append(Row({"role": "user", "content": asked}))
        rows.extend(Row({"role": "assistant", "content": answer}) for answer in answers)
    found = list_exchanges(rows)
    wanted = [PastExchange(asked, "\n\n".join(part.strip() for part in parts if part.strip())) for asked, parts in talk]
    assert found == wanted
    assert same_talk(found, [PastExchange(f" {one.asked}\n", one.answered.replace("\n\n", "\n")) for one in wanted])
    assert not same_talk(found, [*wanted, PastExchange("more", "")])


def say(role: str, text: str, **marks: bool) -> Row:
    return Row({"role": role, "content": text, **marks})


def test_a_history_goes_on_where_an_engine_made_the_conversation_shorter() -> None:
    """E2: its end is compared word for word, and all of it with what was ever written."""
    said = [PastExchange(f"q{n}", f"a{n}") for n in range(6)]
    rows = [say("user", "q0"), say("assistant", "a0"), say("user", "what came between", compacted=True)]
    rows += [say("user", "q3"), say("user", "q4"), say("assistant", "a4"), say("user", "q5"), say("assistant", "a5")]
    assert is_shortened(rows)
    assert not is_shortened([say("user", "q0")])
    standing = list_exchanges(rows)
    assert may_go_on(standing, [*said, *standing], said)
    assert may_go_on(list_exchanges(rows[2:]), said, said)
    assert not may_go_on([], said, said)
    assert not may_go_on(standing, said, [])
    assert not may_go_on(standing, said, said[1:])  # what is asked first there was not asked in it
    assert not may_go_on(standing, said, [said[0], said[2], said[1], *said[3:]])
    for place in range(6):
        changed = [*said[:place], PastExchange(said[place].asked, "never said"), *said[place + 1 :]]
        assert not may_go_on(standing, said, changed)


def test_the_words_of_an_engine_are_nobodys_answer() -> None:
    rows = [say("user", "q"), say("assistant", "a"), say("assistant", "a summary", compacted=True)]
    assert list_exchanges(rows) == [PastExchange("q", "a")]
