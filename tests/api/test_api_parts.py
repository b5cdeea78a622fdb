"""The pure parts of the API: ids, questions made of lists, and what came of a run."""

import asyncio
import contextlib
import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gateway.http.api.formats.asking import NOTHING_ASKED, Ask, ClientMessage, fold
from gateway.http.api.formats.reading_requests import read_chat
from gateway.http.api.formats.sent_text import EVENT_NAMES, SentText
from gateway.http.api.messages import MOST_CHARS, ChatRequest
from gateway.http.api.problems import ApiProblem
from gateway.http.api.runs.outcomes import RunOutcome, join_turn, read_outcome
from gateway.http.api.runs.run_record import Record
from gateway.http.api.runs.tickets import RESPONSE, RUN, Ticket, read_ticket
from gateway.http.calls import Refusal, parse
from gateway.platforms.face import Begun
from hermes_base.chat import TextDelta, TextEnded, ToolStarted
from hermes_base.inbound import ANSWER, NOTE, Address, Outgoing
from hermes_base.query_values import Caller, PastExchange, TimelineEntry
from hermes_base.text.wrappers import HEAD_BEGINS

HERE = Address("api", "api", "c")
NAMES = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\n"), min_size=1, max_size=60)


@given(NAMES, NAMES)
def test_an_id_holds_its_place(conversation: str, message: str) -> None:
    """What an id was made of is read from it again, and only under its own prefix."""
    ticket = Ticket(conversation, message)
    assert read_ticket(ticket.write(RUN), RUN) == ticket
    assert read_ticket(ticket.write(RUN), RESPONSE) is None


@given(st.text(max_size=200))
def test_any_text_is_an_id_or_none(text: str) -> None:
    """Nothing that a client invents breaks the reader, and no two ids name the same run."""
    ticket = read_ticket(RUN + text, RUN)
    assert ticket is None or ticket.write(RUN) == RUN + text


def test_a_list_becomes_a_question() -> None:
    ask = fold(
        [
            ClientMessage("system", "Be short."),
            ClientMessage("user", "One"),
            ClientMessage("assistant", "1"),
            ClientMessage("assistant", "one"),
            ClientMessage("user", "Two"),
            ClientMessage("user", "Three"),
        ]
    )
    assert ask.said == "Two\n\nThree"
    assert ask.before == (PastExchange(f"{HEAD_BEGINS}\nBe short.\n[End of the instructions]\n\nOne", "1\n\none"),)
    assert ask.first_said.endswith("\n\nTwo\n\nThree")


def test_a_list_that_begins_with_an_answer_has_a_question() -> None:
    assert fold([ClientMessage("assistant", "Hello."), ClientMessage("user", "Hi")]).before == (
        PastExchange(NOTHING_ASKED, "Hello."),
    )


@given(st.lists(st.tuples(st.sampled_from(["system", "user", "assistant"]), st.text(min_size=1, max_size=5))))
def test_no_word_of_a_list_is_lost(spoken: list[tuple[str, str]]) -> None:
    """Each text stands once: in the head, in an exchange or in what is said."""
    ask = fold([ClientMessage(role, text) for role, text in spoken])
    heads = "\n\n".join(text for role, text in spoken if role == "system")
    assert ask.head == heads
    told = [part for pair in ask.before for part in (pair.asked, pair.answered)] + [ask.said]
    everything = "\n\n".join(told)
    assert all(text in everything for role, text in spoken if role != "system")


# --- what came of a run


def test_streamed_text_is_the_answer_if_it_ends_with_it() -> None:
    answer = Outgoing(HERE, "Two.", ANSWER)
    assert read_outcome([answer], "One.\n\nTwo.").text == "One.\n\nTwo."
    assert read_outcome([answer], "Tw").text == "Two."


def test_what_was_not_seen_comes_from_the_transcript() -> None:
    entries = [
        TimelineEntry("m0", "user", "?"),
        TimelineEntry("m1", "assistant", "One."),
        TimelineEntry("m2", "tool", "x"),
        TimelineEntry("m3", "assistant", "Two."),
    ]
    assert read_outcome([Outgoing(HERE, "Two.", ANSWER)], "something else", entries).text == "One.\n\nTwo."
    assert join_turn(entries, "Three.") == ""


def test_an_interrupted_answer_says_so_apart() -> None:
    """C6: who stopped it is told beside the text, not in it."""
    reason = "Interrupted: stopped by the user."
    ended = Outgoing(HERE, f"Half\n\n({reason})", ANSWER, interrupted=True, completed=False, reason=reason)
    assert read_outcome([ended], "Half") == RunOutcome("Half", interrupted=True, reason=reason)
    alone = Outgoing(HERE, f"({reason})", ANSWER, interrupted=True, completed=False, reason=reason)
    assert read_outcome([alone], "").text == ""


def test_a_message_that_was_turned_away_is_refused() -> None:
    told = read_outcome([Outgoing(HERE, "Too many wait.", NOTE, "warning")], "")
    assert (told.error, told.refused) == ("Too many wait.", True)
    assert read_outcome([Outgoing(HERE, "Done.", NOTE)], "").text == "Done."
    assert read_outcome([], "").error


PIECES = st.one_of(st.builds(TextDelta, st.text("ab", min_size=1, max_size=3)), st.builds(TextEnded, st.booleans()))


@given(st.lists(PIECES, max_size=30), st.one_of(st.none(), st.text("ab", max_size=9)))
def test_c7_who_joins_the_pieces_has_the_text_or_is_told(
    events: list[TextDelta | TextEnded], other: str | None
) -> None:
    """C7: whatever was begun anew, and whatever a plugin made of the answer."""
    record = Record(Ticket("c", "m"), Caller(), "hermes", 0.0)
    for event in events:
        record.show(event)
    text = record.streamed if other is None else other
    record.end(RunOutcome(text))
    sent, joined = SentText(record), ""
    for told in record.events:
        joined += sent.take(told.event) if sent.problem is None else ""
    if sent.problem is None:
        sent.finish(text)
    assert joined.strip() == text.strip() or sent.problem is not None
    if not any(event == TextEnded(kept=False) for event in events) and other is None:
        assert sent.problem is None


def test_followers_read_the_same_whenever_they_come() -> None:
    """Every follower sees all events in order, and the texts join to the answer."""

    async def follow() -> None:
        record = Record(Ticket("c", "m"), Caller(), "hermes", 0.0)
        early = asyncio.create_task(_collect(record))
        await asyncio.sleep(0)
        record.begin(Begun((1,)))
        for event in (TextDelta("One."), TextEnded(True), ToolStarted("1", "t", ""), TextDelta("Two")):
            record.show(event)
            await asyncio.sleep(0)
        record.end(RunOutcome("One.\n\nTwo."))
        late = await _collect(record)
        assert late == await early
        assert "".join(text for kind, text in late if kind == "text") == "One.\n\nTwo."

    asyncio.run(follow())


async def _collect(record: Record) -> list[tuple[str, str]]:
    return [(EVENT_NAMES[type(one.event)], getattr(one.event, "text", "")) async for one in record.follow() if one]


# --- bodies


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"{",
        b"[]",
        b"null",
        b"\xff",
        b'{"a": NaN}',
        b'{"a": "\\ud800"}',
        b'{"a":' * 100_000,
        b"[" * 100_000 + b"]" * 100_000,
    ],
    ids=range(9),
)
def test_what_is_no_json_is_refused(body: bytes) -> None:
    with pytest.raises(Refusal) as refused:
        parse(body, ChatRequest)
    assert refused.value.status == 400


@pytest.mark.parametrize(
    ("fields", "sentence"),
    [
        ({"model": None}, "model must be a text."),
        ({"model": " "}, "model must not be empty."),
        ({"model": "x" * 201}, "model must not be longer than 200 characters."),
        ({"stream": "yes"}, "stream must be true or false."),
        ({"n": 1.5}, "n must be a whole number."),
        ({"messages": "Hi"}, "messages must be a list."),
        ({"messages": []}, "messages must not be empty."),
        ({"messages": [{"role": "user"}] * 5_001}, "messages must not have more than 5000 entries."),
        ({"messages": [5]}, "messages[0] must be an object."),
        ({"messages": [{"content": "Hi"}]}, "messages[0].role is missing."),
        ({"messages": [{"role": "user", "content": 5}]}, "messages[0].content must be a text or a list."),
        ({"messages": [{"role": "user", "content": [{"type": 5}]}]}, "messages[0].content[0].type must be a text."),
        ({"stream_options": {"include_usage": 5}}, "stream_options.include_usage must be true or false."),
    ],
)
def test_a_field_that_is_wrong_is_named(fields: dict[str, object], sentence: str) -> None:
    """H3: which one, and what it should be."""
    with pytest.raises(Refusal) as refused:
        read({"model": "hermes", "messages": [{"role": "user", "content": "Hi"}], **fields})
    assert str(refused.value) == sentence
    assert refused.value.param == sentence.split()[0]


def read(body: dict[str, object]) -> Ask:
    return read_chat(parse(json.dumps(body).encode(), ChatRequest))


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
)
FIELDS = ["messages", "model", "n", "stream", "metadata", "modalities", "response_format", "stream_options", "hermes"]


@settings(max_examples=400)
@given(st.dictionaries(st.sampled_from(FIELDS), json_values))
def test_any_object_is_read_or_refused(body: dict[str, object]) -> None:
    """Whatever stands in a body, the answer is a sentence about it, never a crash."""
    with contextlib.suppress(ApiProblem, Refusal):
        read(body)


def test_the_limit_of_a_text_holds() -> None:
    """Also for a text in pieces."""
    piece = {"role": "user", "content": "x" * (MOST_CHARS // 2 + 1)}
    with pytest.raises(ApiProblem, match="longer than"):
        read({"model": "hermes", "messages": [piece, piece]})
    with pytest.raises(Refusal, match="longer than"):
        read({"model": "hermes", "messages": [{"role": "user", "content": "x" * (MOST_CHARS + 1)}]})
