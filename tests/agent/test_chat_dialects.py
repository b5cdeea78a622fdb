"""Chat Completions as each provider speaks it: recorded answers, and what they mean however they are cut."""

import json
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.formats import chat_completions as wire
from agent.formats.repair import write_reply
from agent.formats.reply import OWN_DATA, Reply, ToolCall
from agent.http.clients import DONE, iter_event_data
from agent.providers.failures import in_stream_failure
from agent.usage_pricing import CanonicalUsage

FIXTURES = Path(__file__).parent / "wire_fixtures" / "chat"
Usage = CanonicalUsage
Answer = tuple[str, str, str, list[tuple[str, str, str]], CanonicalUsage | None]

#: text, reasoning, finish reason, calls, usage
STREAMS: dict[str, Answer] = {
    "openai": ("Grüße, 世界!", "", "stop", [], Usage(176, 5, 1024)),
    "openai_calls": (
        "",
        "",
        "tool_calls",
        [("call_a1", "look", '{"at":"door"}'), ("call_b2", "hear", "{}")],
        Usage(80, 30),
    ),
    "openai_refusal": ("I'm sorry, I can't.", "", "content_filter", [], Usage(40, 8)),
    "azure": ("One two", "", "content_filter", [], None),
    "openrouter": (
        "I look.",
        "Look first.",
        "tool_calls",
        [("toolu_01", "look", '{"at":"x"}')],
        Usage(500, 60, 1500, reasoning_tokens=20, cost=0.0042),
    ),
    "deepseek": (
        "Let me see.",
        "Need the date.",
        "tool_calls",
        [("call_00_x", "get_date", "{}")],
        Usage(44, 40, 256, reasoning_tokens=12),
    ),
    "mistral": ("It is four.", "Two and two.", "stop", [], Usage(20, 15)),
    "mistral_calls": (
        "",
        "",
        "tool_calls",
        [("D681PevKs", "look", '{"at": "a"}'), ("b9Kx2mNq1", "look", '{"at": "b"}')],
        Usage(90, 40),
    ),
    "groq": ("Yes.", "Easy.", "stop", [], Usage(70, 9)),
    "gemini": ("Hallo", "", "stop", [], Usage(12, 3)),
    "gemini_calls": (
        "",
        "",
        "tool_calls",
        [("eaifhb3y", "search", '{"q":"a"}'), ("mw4fnecu", "search", '{"q":"b"}')],
        Usage(50, 45, reasoning_tokens=25),
    ),
    "gemini_empty_ids": (
        "",
        "",
        "tool_calls",
        [("call_0", "search", '{"q":"a"}'), ("call_1", "search", '{"q":"b"}'), ("call_2", "list", "{}")],
        None,
    ),
    "gemini_repeated_ids": (
        "",
        "",
        "tool_calls",
        [("function-call-1", "search", '{"q":"a"}'), ("function-call-1_", "search", '{"q":"b"}')],
        None,
    ),
    "gemini_thoughts": ("Done.", "Plan it.", "stop", [], None),
    "ollama": ("Hi", "Hm.", "tool_calls", [("call_pq", "look", "{}")], Usage(30, 12)),
    "llamacpp": ("Here it is <think>.", "Let me\n", "stop", [], Usage(5, 14, 20)),
    "vllm": ("\n\nThe end", "So then", "length", [], Usage(33, 16)),
    "vllm_calls": (
        "",
        "",
        "tool_calls",
        [("chatcmpl-tool-1", "look", '{"a": 1}'), ("chatcmpl-tool-2", "look", '{"a": 2}')],
        None,
    ),
    "lmstudio": ("AB", "One.", "tool_calls", [("365174485", "look", '{"x":1}')], Usage(44, 9)),
    "same_index": ("", "", "tool_calls", [("a", "look", '{"n":1}'), ("b", "look", '{"n":2}')], None),
    "repeating_names": ("", "", "tool_calls", [("a", "look", '{"n":1}')], None),
    "odd": ("ok", "", "stop", [], None),
    "old_function_call": ("", "", "tool_calls", [("call_0", "look", '{"a":1}')], None),
    "half_mark": (" <thin", "", "length", [], None),
    "open_thought": ("", "I wonder</", "length", [], None),
}
DOCUMENTS: dict[str, Answer] = {
    "openai": ("", "", "tool_calls", [("call_1", "look", '{"a":1}')], Usage(10, 5)),
    "refusal": ("No.", "", "content_filter", [], Usage(10, 5)),
    "openrouter": ("Yes.", "Hm.", "stop", [], Usage(10, 5, cost=0.01)),
    "mistral": ("Yes.", "Hm.", "stop", [], Usage(10, 5)),
    "gemini": ("", "", "tool_calls", [("call_0", "a", "{}"), ("call_1", "a", "{}")], None),
    "ollama": ("Yes.", "", "stop", [], Usage(10, 5)),
    "objects": ("", "", "tool_calls", [("x", "look", '{"a": "ä"}')], None),
}


def dialect_of(name: str) -> str:
    return "chat_completions/" + name.partition("_")[0]


def events_of(raw: bytes) -> list[bytes]:
    return list(iter_event_data([raw]))


def read(name: str, events: list[bytes], shown: list[str] | None = None, thought: list[str] | None = None) -> Any:
    reader = wire.read_answer(
        dialect_of(name), None if shown is None else shown.append, None if thought is None else thought.append
    )
    for data in events:
        if data == DONE:
            reader.finish()
            continue
        chunk = json.loads(data)
        assert wire.find_error(chunk) is None
        reader.feed(chunk)
    return reader


def answer_of(reply: Reply) -> Answer:
    calls = [(call.id, call.name, call.arguments) for call in reply.tool_calls]
    return reply.text, reply.reasoning, reply.finish_reason, calls, reply.usage


def load(name: str) -> bytes:
    return (FIXTURES / f"{name}.sse").read_bytes()


# --- recorded answers


@pytest.mark.parametrize("name", STREAMS)
def test_a_recorded_stream_is_read(name: str) -> None:
    shown: list[str] = []
    thought: list[str] = []
    reader = read(name, events_of(load(name)), shown, thought)
    assert reader.whole
    assert answer_of(reader.reply()) == STREAMS[name]
    assert ("".join(shown), "".join(thought)) == STREAMS[name][:2]
    assert reader.reply().model


@pytest.mark.parametrize("name", DOCUMENTS)
def test_a_recorded_document_is_read(name: str) -> None:
    reader = read(name, [(FIXTURES / f"{name}.json").read_bytes()])
    assert reader.whole
    assert answer_of(reader.reply()) == DOCUMENTS[name]


def test_every_fixture_is_used() -> None:
    broken = {"openrouter_error", "vllm_error", "gave_up"}
    assert {path.stem for path in FIXTURES.glob("*.sse")} == {*STREAMS, *broken}
    assert {path.stem for path in FIXTURES.glob("*.json")} == {*DOCUMENTS}


@pytest.mark.parametrize("name", STREAMS)
def test_a_stream_that_breaks_off_is_never_wrong(name: str) -> None:
    events = events_of(load(name))
    text, reasoning = STREAMS[name][:2]
    for count in range(len(events)):
        reader = read(name, events[:count])
        assert text.startswith(reader.text)
        assert reasoning.startswith(reader.reply().reasoning)
        if reader.whole:
            assert answer_of(reader.reply())[:4] == STREAMS[name][:4]


@given(st.sampled_from([*STREAMS]), st.data())
def test_a_stream_means_the_same_however_it_is_cut(name: str, data: st.DataObject) -> None:
    raw = load(name)
    cuts = data.draw(st.lists(st.integers(0, len(raw)), max_size=10))
    pieces = [raw[start:stop] for start, stop in pairwise(sorted({0, len(raw), *cuts}))]
    assert list(iter_event_data(pieces)) == events_of(raw)


@pytest.mark.parametrize(("name", "status"), [("openrouter_error", 502), ("vllm_error", 500)])
def test_an_error_in_the_stream_is_found(name: str, status: int) -> None:
    chunks = [json.loads(data) for data in events_of(load(name)) if data != DONE]
    problems = [problem for chunk in chunks if (problem := wire.find_error(chunk)) is not None]
    assert len(problems) == 1
    assert in_stream_failure(problems[0], "it").status == status


def test_an_answer_that_the_provider_gave_up_is_not_whole() -> None:
    assert not read("gave_up", events_of(load("gave_up"))).whole


@pytest.mark.parametrize(
    ("told", "neutral"),
    [
        ("stop", "stop"),
        ("STOP", "stop"),
        ("eos", "stop"),
        ("end_turn", "stop"),
        ("length", "length"),
        ("MAX_TOKENS", "length"),
        ("model_length", "length"),
        ("tool_calls", "stop"),  # without a call there is none
        ("content_filter", "content_filter"),
        ("SAFETY", "content_filter"),
        ("something_new", "stop"),
    ],
)
def test_reasons_to_stop(told: str, neutral: str) -> None:
    reader = wire.read_answer("chat_completions")
    reader.feed({"choices": [{"delta": {"content": "x"}, "finish_reason": told}]})
    assert reader.reply().finish_reason == neutral


@given(st.recursive(st.none() | st.just("x") | st.integers(0, 2), lambda inner: st.lists(inner, max_size=2)))
def test_empty_fields_do_no_harm(value: Any) -> None:
    reader = wire.read_answer("chat_completions/openrouter")
    for delta in ({"content": None}, {"reasoning": value}, {"tool_calls": None}, {"reasoning_details": None}, None):
        reader.feed({"choices": [{"delta": delta}], "usage": None})
    assert (reader.text, reader.whole, reader.reply().tool_calls) == ("", False, ())


# --- thoughts inside the text

MARKS = [("<think>", "</think>"), ("<thinking>", "</thinking>"), ("[THINK]", "[/THINK]")]
THOUGHT = st.text("ab <>/\n", max_size=20)
ANSWER = st.text("<think>/g \n", max_size=20).filter(
    lambda text: not text.lstrip().startswith(("<think>", "<thinking>"))
)


def split_text(text: str, cuts: list[int]) -> tuple[str, str, str, str]:
    """The text, what was shown of it, the reasoning, what was shown of that."""
    shown: list[str] = []
    thought: list[str] = []
    reader = wire.read_answer("chat_completions", shown.append, thought.append)
    edges = sorted({0, len(text), *(cut % (len(text) + 1) for cut in cuts)})
    for start, stop in pairwise(edges):
        reader.feed({"choices": [{"delta": {"content": text[start:stop]}}]})
    reader.finish()
    reply = reader.reply()
    return reply.text, "".join(shown), reply.reasoning, "".join(thought)


@given(st.sampled_from(MARKS), THOUGHT, ANSWER, st.lists(st.integers(0, 60), max_size=20))
def test_a_thought_is_taken_out_of_the_text_wherever_it_is_cut(
    marks: tuple[str, str], thought: str, answer: str, cuts: list[int]
) -> None:
    opened, closed = marks
    text = f"\n{opened}{thought}{closed}\n\n{answer}"
    expected = (answer.lstrip(), answer.lstrip(), thought.lstrip(), thought.lstrip())
    assert split_text(text, cuts) == expected
    assert split_text(text, list(range(len(text)))) == expected


@given(ANSWER, st.lists(st.integers(0, 60), max_size=20))
def test_a_text_without_thoughts_stays_as_it_is(text: str, cuts: list[int]) -> None:
    assert split_text(text, cuts) == (text, text, "", "")


@given(THOUGHT, st.lists(st.integers(0, 60), max_size=20))
def test_marks_inside_the_answer_are_text(thought: str, cuts: list[int]) -> None:
    text = f"A <think>{thought}</think>"
    assert split_text(text, cuts) == (text, text, "", "")


# --- what goes back


def sent_back(name: str, dialect: str = "") -> dict[str, Any]:
    message = write_reply(read(name, events_of(load(name))).reply())
    found = json.loads(wire.encode_message(message, dialect or dialect_of(name)))
    assert isinstance(found, dict)
    return found


def test_thoughts_are_not_sent_back() -> None:
    assert sent_back("llamacpp") == {"role": "assistant", "content": "Here it is <think>."}


def test_openrouter_gets_its_blocks_of_reasoning_back_in_one_piece() -> None:
    block = {"type": "reasoning.text", "format": "anthropic-claude-v1", "index": 0, "text": "Look first."}
    assert sent_back("openrouter")["reasoning_details"] == [{**block, "signature": "EqQBSig=="}]


def test_deepseek_gets_the_reasoning_of_its_calls_back() -> None:
    assert sent_back("deepseek")["reasoning_content"] == "Need the date."
    foreign = {"role": "assistant", "content": "", "tool_calls": [ToolCall("a", "look", "{}").as_message_part()]}
    assert json.loads(wire.encode_message(foreign, "chat_completions/deepseek"))["reasoning_content"] == ""


def test_gemini_gets_its_signatures_back() -> None:
    first, second = sent_back("gemini_calls")["tool_calls"]
    assert first["extra_content"] == {"google": {"thought_signature": "EjQKMg=="}}
    assert "extra_content" not in second


@pytest.mark.parametrize("name", ["openrouter", "deepseek", "gemini_calls"])
def test_what_is_for_one_provider_is_not_sent_to_another(name: str) -> None:
    """D7"""
    message = sent_back(name, "chat_completions")
    assert set(message) <= {"role", "content", "tool_calls"}
    assert all(set(call) == {"id", "type", "function"} for call in message["tool_calls"])


def test_mistral_gets_ids_in_the_form_it_takes() -> None:
    """D7"""
    call = ToolCall("toolu_01ABCDEF", "look", "{}").as_message_part()
    dialect = "chat_completions/mistral"
    asked = json.loads(
        wire.encode_message(
            {"role": "assistant", "content": "", "tool_calls": [call, {**call, "id": "D681PevKs"}]}, dialect
        )
    )
    told = json.loads(wire.encode_message({"role": "tool", "tool_call_id": "toolu_01ABCDEF", "content": "x"}, dialect))
    ids = [made["id"] for made in asked["tool_calls"]]
    assert ids == [told["tool_call_id"], "D681PevKs"]
    assert len(ids[0]) == 9
    assert ids[0].isalnum()


def test_nothing_is_kept_where_nobody_wants_it_back() -> None:
    assert OWN_DATA not in write_reply(read("vllm", events_of(load("vllm"))).reply())
