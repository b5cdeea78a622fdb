"""Anthropic Messages on the wire, outwards: what a message becomes, and that joined fragments are the whole."""

import json
import re
from collections.abc import Sequence
from itertools import groupby
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.formats import anthropic_messages as wire
from agent.formats.anthropic_messages import BUDGETS, UNKNOWN_LIMIT, find_output_limit, usual_output_limit
from agent.formats.repair import repair_messages
from agent.formats.reply import OWN_DATA, make_own_data
from agent.formats.wire import CallSettings
from agent.providers.table import PROVIDERS

DIALECT = "anthropic_messages"
TOOL = {
    "type": "function",
    "function": {"name": "look", "description": "Looks.", "parameters": {"type": "object", "properties": {"at": {}}}},
}
PNG = "iVBORw0KGgo="
IMAGE = {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{PNG}"}}
IMAGE_BLOCK = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": PNG}}
THINKING = {"type": "thinking", "thinking": "hm", "signature": "c2ln"}
LATER_THINKING = {"type": "thinking", "thinking": "and", "signature": "bGF0ZXI="}
SEALED = {"type": "redacted_thinking", "data": "c2VhbGVk"}
MARK = {"cache_control": {"type": "ephemeral"}}


def text(value: str) -> dict[str, Any]:
    return {"type": "text", "text": value}


def call(call_id: str, arguments: str = "{}", name: str = "look") -> dict[str, Any]:
    return {"id": call_id, "type": "function", "function": {"name": name, "arguments": arguments}}


def use(call_id: str, value: dict[str, Any], name: str = "look") -> dict[str, Any]:
    return {"type": "tool_use", "id": call_id, "name": name, "input": value}


def encoded(message: dict[str, Any], dialect: str = DIALECT) -> dict[str, Any]:
    fragment = wire.encode_message(message, dialect)
    assert fragment.endswith(b"]}")
    value: dict[str, Any] = json.loads(fragment)
    assert list(value) == ["role", "content"]
    return value


def blocks_of(message: dict[str, Any], dialect: str = DIALECT) -> list[Any]:
    content = encoded(message, dialect)["content"]
    assert isinstance(content, list)
    return content


# --- one message


@pytest.mark.parametrize(
    ("content", "blocks"),
    [
        ("Hello.", [text("Hello.")]),
        ("", [text("(empty)")]),
        (" \n\t", [text("(empty)")]),
        ([], [text("(empty)")]),
        ([text("a"), IMAGE, text("  ")], [text("a"), IMAGE_BLOCK]),
        (
            [{"type": "image_url", "image_url": {"url": "https://a.example/b.jpg"}}],
            [{"type": "image", "source": {"type": "url", "url": "https://a.example/b.jpg"}}],
        ),
        (
            [{"type": "image_url", "image_url": f"data:image/JPG;base64,{PNG}"}],
            [{"type": "image", "source": {"type": "base64", "media_type": "image/jpeg", "data": PNG}}],
        ),
        (
            [{"type": "image_url", "image_url": {"url": "data:image/svg+xml;base64,AA=="}}],
            [text("(image left out: its kind is not supported)")],
        ),
        (
            [{"type": "image_url", "image_url": {"url": "data:image/png;base64,broken!"}}],
            [text("(image left out: its data is broken)")],
        ),
        ([{"type": "input_audio", "input_audio": {}}], [text("(input_audio left out)")]),
    ],
)
def test_user_content_becomes_blocks(content: Any, blocks: list[Any]) -> None:
    assert encoded({"role": "user", "content": content}) == {"role": "user", "content": blocks}


@pytest.mark.parametrize(
    ("content", "told"),
    [
        ("found", "found"),
        ("", "(empty)"),
        ('{"_multimodal": true}', '{"_multimodal": true}'),
        ('{"_multimodal": broken', '{"_multimodal": broken'),
        (json.dumps({"_multimodal": True, "content": [text("A map."), IMAGE]}), [text("A map."), IMAGE_BLOCK]),
        (json.dumps({"_multimodal": True, "content": []}), "(empty)"),
        ([text("A map."), IMAGE], [text("A map."), IMAGE_BLOCK]),
    ],
)
def test_a_tool_result_is_a_block_of_the_user(content: Any, told: Any) -> None:
    message = {"role": "tool", "tool_call_id": "call_1", "content": content}
    block = {"type": "tool_result", "tool_use_id": "call_1", "content": told}
    assert encoded(message) == {"role": "user", "content": [block]}


@pytest.mark.parametrize(
    ("fields", "blocks"),
    [
        ({"content": "Hi."}, [text("Hi.")]),
        ({"content": ""}, [text("(empty)")]),
        ({"content": "\n\n", "tool_calls": [call("a", '{"x": 1}')]}, [use("a", {"x": 1})]),
        ({"content": "Hi.", "tool_calls": [call("a"), call("b")]}, [text("Hi."), use("a", {}), use("b", {})]),
        ({"content": "", "tool_calls": [call("a", "{broken")]}, [use("a", {"_invalid_arguments": "{broken"})]),
        ({"content": "", "tool_calls": [call("a", '{"x": NaN, "y": 1e999}')]}, [use("a", {"x": "NaN", "y": "1e999"})]),
        ({"content": "", "tool_calls": [call("a", "{}", "my.tool")]}, [use("a", {}, "my_tool")]),
    ],
)
def test_an_assistant_message_is_text_and_calls(fields: dict[str, Any], blocks: list[Any]) -> None:
    assert encoded({"role": "assistant", **fields}) == {"role": "assistant", "content": blocks}


@given(st.lists(st.text(max_size=8), unique=True, max_size=6))
def test_ids_are_made_valid_stay_different_and_fit_their_results(ids: list[str]) -> None:
    """D7: ids of another provider's calls"""
    message = {"role": "assistant", "content": "", "tool_calls": [call(call_id) for call_id in ids]}
    uses = [block["id"] for block in blocks_of(message) if block["type"] == "tool_use"]
    results = [
        blocks_of({"role": "tool", "tool_call_id": call_id, "content": "x"})[0]["tool_use_id"] for call_id in ids
    ]
    assert uses == results
    assert len(set(uses)) == len(ids)
    assert all(re.fullmatch(r"[a-zA-Z0-9_-]+", made) for made in uses)


# --- thinking


def thought(blocks: Sequence[Any], dialect: str = DIALECT, **fields: Any) -> dict[str, Any]:
    return {"role": "assistant", "content": "", **fields, **make_own_data(dialect, blocks=list(blocks))}


def test_an_answer_with_thinking_is_sent_back_in_its_exact_order() -> None:
    blocks = [THINKING, SEALED, text("One."), use("a", {"x": 1}), LATER_THINKING, text("Two."), use("b", {})]
    message = thought(blocks, content="One.Two.", tool_calls=[call("a", '{"x": 1}'), call("b")])
    assert blocks_of(message) == blocks


def test_thinking_survives_the_repair_of_a_message_and_a_store() -> None:
    blocks = [THINKING, use("a", {"_invalid_arguments": '{"x":'})]
    message = thought(blocks, tool_calls=[call("a", '{"x":')])
    repaired = repair_messages([json.loads(json.dumps(message))])[0]
    assert blocks_of(repaired) == blocks


def test_blank_text_between_thinking_and_a_call_is_left_out() -> None:
    message = thought([THINKING, text("\n\n"), use("a", {})], content="\n\n", tool_calls=[call("a")])
    assert blocks_of(message) == [THINKING, use("a", {})]


@pytest.mark.parametrize(
    "changed",
    [
        {"content": "[secret]", "tool_calls": [call("a", '{"x": 1}')]},
        {"content": "One.", "tool_calls": [call("a", '{"x": "[secret]"}')]},
        {"content": "One.", "tool_calls": [call("a_", '{"x": 1}')]},
        {"content": "One."},
    ],
)
def test_behind_a_change_no_thinking_is_sent(changed: dict[str, Any]) -> None:
    kept = [THINKING, text("One."), LATER_THINKING, use("a", {"x": 1})]
    plain = blocks_of({"role": "assistant", **changed})
    assert blocks_of(thought(kept, **changed)) == [THINKING, *plain]
    assert blocks_of(thought(kept[1:], **changed)) == plain


@pytest.mark.parametrize(
    "foreign",
    [
        make_own_data("codex_responses", items=[{"type": "reasoning", "encrypted_content": "x"}]),
        make_own_data("anthropic_messages/other", blocks=[THINKING]),
        {OWN_DATA: "nonsense"},
        {"reasoning": "thoughts"},
    ],
)
def test_foreign_reasoning_is_left_out(foreign: dict[str, Any]) -> None:
    """D7"""
    message = {"role": "assistant", "content": "Hi.", "tool_calls": [call("a")], **foreign}
    assert blocks_of(message) == [text("Hi."), use("a", {})]


def test_thinking_never_ends_a_message() -> None:
    assert blocks_of(thought([THINKING])) == [THINKING, text("(empty)")]


# --- system and tools


def test_the_system_prompt_is_a_text_block() -> None:
    assert json.loads(wire.encode_system("Be brief.")) == text("Be brief.")
    assert wire.encode_system("") == b""


@pytest.mark.parametrize(
    ("parameters", "schema"),
    [
        ({"type": "object", "required": ["a"]}, {"type": "object", "required": ["a"]}),
        (None, {"type": "object", "properties": {}}),
        ({"anyOf": [{}], "properties": {"a": {}}}, {"properties": {"a": {}}, "type": "object"}),
    ],
)
def test_tools_have_a_schema_of_an_object(parameters: Any, schema: dict[str, Any]) -> None:
    tool = {"type": "function", "function": {"name": "look", "description": "", "parameters": parameters}}
    assert json.loads(wire.encode_tools([tool])) == [{"name": "look", "input_schema": schema}]
    assert wire.encode_tools([]) == b""


# --- the whole request


TEXT = st.text(max_size=20)
JSON = st.recursive(st.none() | st.booleans() | st.integers() | TEXT, lambda inner: st.lists(inner, max_size=3))
PARTS = st.lists(st.one_of(TEXT.map(text), st.just(IMAGE)), max_size=3)


@st.composite
def rounds(draw: st.DrawFn, number: int) -> list[dict[str, Any]]:
    """A few messages that may follow each other in a conversation."""
    user = {"role": "user", "content": draw(st.one_of(TEXT, PARTS))}
    kind = draw(st.sampled_from(["user", "answer", "tools"]))
    if kind == "user":
        return [user]
    answer: dict[str, Any] = {"role": "assistant", "content": draw(TEXT)}
    uses = [use(f"t{number}-{place}", {"v": draw(JSON)}) for place in range(draw(st.integers(1, 3)))]
    calls = [call(block["id"], json.dumps(block["input"])) for block in uses] if kind == "tools" else []
    if draw(st.booleans()):
        answer |= make_own_data(DIALECT, blocks=[THINKING, text(answer["content"]), *(uses if calls else [])])
    results = [{"role": "tool", "tool_call_id": made["id"], "content": draw(TEXT)} for made in calls]
    return [user, answer | ({"tool_calls": calls} if calls else {}), *results]


@st.composite
def conversations(draw: st.DrawFn) -> list[dict[str, Any]]:
    drawn = [draw(rounds(number)) for number in range(draw(st.integers(1, 5)))]
    return [message for part in drawn for message in part]


def join(messages: list[dict[str, Any]], tail: dict[str, Any]) -> bytes:
    fragments = [wire.encode_message(message, DIALECT) for message in messages]
    return wire.join_request("a-model", wire.encode_tools([TOOL]), wire.encode_system("Be brief."), fragments, tail)


@given(conversations())
def test_joined_fragments_are_the_encoding_of_the_whole(messages: list[Any]) -> None:
    merged = [
        {"role": role, "content": [block for message in run for block in message["content"]]}
        for role, run in groupby((encoded(message) for message in messages), key=lambda message: message["role"])
    ]
    whole = {
        "model": "a-model",
        "tools": json.loads(wire.encode_tools([TOOL])),
        "system": [text("Be brief.")],
        "messages": merged,
        "stream": True,
    }
    body = join(messages, {"stream": True, "_cache_ttl": ""})
    assert body == wire.encode_json(whole)
    assert list(json.loads(body)) == list(whole)


@given(conversations(), st.data())
def test_a_longer_conversation_starts_with_the_bytes_of_the_shorter(messages: list[Any], data: st.DataObject) -> None:
    """A1"""
    cut = data.draw(st.integers(1, len(messages)))
    short = join(messages[:cut], {"_cache_ttl": ""})
    long = join(messages, {"_cache_ttl": "", "stream": True, "max_tokens": 5})
    assert short.endswith(b"]}]}")
    assert long.startswith(short.removesuffix(b"]}]}"))


@given(conversations(), st.sampled_from(["5m", "1h"]))
def test_marks_stand_where_the_cache_reads_and_writes(messages: list[Any], ttl: str) -> None:
    plain = json.loads(join(messages, {"_cache_ttl": ""}))
    body = json.loads(join(messages, {"_cache_ttl": ttl}))
    mark = {"cache_control": {"type": "ephemeral"} | ({"ttl": ttl} if ttl == "1h" else {})}
    users = [message for message in plain["messages"] if message["role"] == "user"]
    for block in (plain["tools"][-1], plain["system"][-1], *(message["content"][-1] for message in users[-2:])):
        block |= mark
    assert body == plain
    assert 3 <= json.dumps(body).count('"cache_control": {') <= 4


def test_marks_are_put_in_without_being_asked_for() -> None:
    body = json.loads(join([{"role": "user", "content": "Hi."}], {"stream": True}))
    assert body["messages"] == [{"role": "user", "content": [text("Hi.") | MARK]}]
    assert "_cache_ttl" not in body


def test_a_request_may_have_neither_tools_nor_system() -> None:
    body = wire.join_request("m", b"", b"", [wire.encode_message({"role": "user", "content": "Hi."}, DIALECT)], {})
    assert json.loads(body) == {"model": "m", "messages": [{"role": "user", "content": [text("Hi.") | MARK]}]}


def test_a_conversation_begins_with_the_user() -> None:
    body = json.loads(join([{"role": "assistant", "content": "Good morning."}], {}))
    assert [message["role"] for message in body["messages"]] == ["user", "assistant"]


# --- what stands behind the messages


def tail_of(model: str, effort: str = "", **settings: Any) -> dict[str, Any]:
    asked = {"enabled": effort != "none", "effort": effort} if effort else None
    tail = wire.make_tail(PROVIDERS["anthropic"], CallSettings(model, reasoning=asked, **settings))
    return {name: value for name, value in tail.items() if name != wire.CACHE_TTL}


@pytest.mark.parametrize(
    ("model", "limit"),
    [
        ("claude-sonnet-4-5", 64_000),
        ("claude-opus-4-20250514", 32_000),
        ("anthropic/claude-opus-4.1", 32_000),
        ("us.anthropic.claude-opus-4-8-v1:0", 128_000),
        ("claude-haiku-4-5-20251001", 64_000),
        ("claude-fable-5-1", 128_000),
        ("claude-opus-5", 128_000),
        ("claude-3-5-haiku-latest", 8_192),
        ("claude-3-haiku-20240307", 4_096),
        ("somebody-s-model", UNKNOWN_LIMIT),
    ],
)
def test_output_limits_are_the_documented_ones(model: str, limit: int) -> None:
    assert find_output_limit(model) == limit
    assert tail_of(model) == {"stream": True, "max_tokens": min(limit, 32_000)}
    assert usual_output_limit(model) == min(limit, 32_000)


EFFORT = {"thinking": {"type": "adaptive", "display": "summarized"}, "output_config": {"effort": "high"}}
BUDGET = {"thinking": {"type": "enabled", "budget_tokens": BUDGETS["high"]}}
DISABLED = {"thinking": {"type": "disabled"}}
LOW = {"output_config": {"effort": "low"}}


@pytest.mark.parametrize(
    ("model", "high", "none"),
    [
        ("claude-sonnet-4-5", BUDGET, DISABLED),
        ("claude-3-7-sonnet-latest", BUDGET, DISABLED),
        ("claude-opus-4-20250514", BUDGET, DISABLED),
        ("claude-3-5-haiku-latest", {}, {}),
        ("claude-opus-4-7", EFFORT, {}),
        ("claude-sonnet-5", EFFORT, DISABLED),
        ("claude-haiku-5-5", EFFORT, DISABLED),
        ("claude-sonnet-5-5", EFFORT, {"thinking": {"type": "between_tools"}}),
        ("claude-opus-5-5", EFFORT, LOW),
        ("anthropic/claude-fable-5.1", EFFORT, LOW),
        ("claude-something-7", EFFORT, LOW),
    ],
)
def test_thinking_is_asked_for_in_the_form_that_the_model_takes(model: str, high: Any, none: Any) -> None:
    fields = {"stream", "max_tokens"}
    assert {key: value for key, value in tail_of(model, "high").items() if key not in fields} == high
    assert {key: value for key, value in tail_of(model, "none").items() if key not in fields} == none


@pytest.mark.parametrize("effort", BUDGETS)
@pytest.mark.parametrize("max_tokens", [None, 100, 5_000, 30_000])
@pytest.mark.parametrize("model", ["claude-sonnet-4-5", "claude-opus-4-1", "somebody-s-model"])
def test_a_budget_stays_below_the_output_limit(model: str, max_tokens: int | None, effort: str) -> None:
    tail = tail_of(model, effort, max_tokens=max_tokens)
    budget = tail["thinking"]["budget_tokens"]
    assert 1_024 <= budget <= BUDGETS[effort]
    assert budget < tail["max_tokens"] <= max(find_output_limit(model), max_tokens or 0)
    assert tail["max_tokens"] >= (max_tokens or 0)


def test_a_model_that_has_to_answer_in_words_may_not_call_tools() -> None:
    assert tail_of("claude-sonnet-4-5", with_tools=False)["tool_choice"] == {"type": "none"}


@pytest.mark.parametrize(
    ("chunk", "problem"),
    [
        ({"type": "ping"}, None),
        ({"type": "message_stop"}, None),
        (
            {"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}},
            {"type": "overloaded_error", "message": "Overloaded"},
        ),
        ({"type": "error"}, {"message": "an error without a word on it"}),
        ({"error": "no"}, {"message": "no"}),
    ],
)
def test_an_error_in_mid_stream_is_found(chunk: dict[str, Any], problem: Any) -> None:
    assert wire.find_error(chunk) == problem
