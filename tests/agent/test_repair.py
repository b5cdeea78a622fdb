"""Messages made fit for every provider; repairing twice is repairing once."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.formats.repair import INVALID_ARGUMENTS, UNKNOWN_OUTCOME, repair_messages

VALUES = st.one_of(st.none(), st.text(max_size=8), st.integers(), st.lists(st.text(max_size=4), max_size=2))
IDS = st.sampled_from(["a", "b", "", None, 7])
ARGUMENTS = st.one_of(VALUES, st.just("{}"), st.just('{"x": 1}'), st.just('{"x":'), st.dictionaries(st.text(), VALUES))
CALLS = st.lists(
    st.one_of(
        VALUES,
        st.fixed_dictionaries(
            {
                "id": IDS,
                "function": st.fixed_dictionaries(
                    {"name": st.sampled_from(["look", "", "\ud800"]), "arguments": ARGUMENTS}
                ),
            }
        ),
    ),
    max_size=3,
)
MESSAGES = st.lists(
    st.fixed_dictionaries(
        {
            "role": st.sampled_from(["user", "assistant", "tool", "system", "robot", None]),
            "content": st.one_of(VALUES, st.just("half a pair \udc00"), st.just([{"type": "text", "text": "\ud83d"}])),
        },
        optional={"tool_calls": st.one_of(CALLS, VALUES), "tool_call_id": IDS},
    ),
    max_size=8,
)


@given(MESSAGES)
def test_repairing_twice_is_repairing_once(messages: list[dict[str, Any]]) -> None:
    once = repair_messages(messages)
    assert repair_messages(once) == once


@given(MESSAGES)
def test_every_call_has_its_one_result_right_behind_it(messages: list[dict[str, Any]]) -> None:
    waiting: list[str] = []
    for message in repair_messages(messages):
        if message["role"] == "tool":
            waiting.remove(message["tool_call_id"])
            continue
        assert waiting == []
        waiting = [call["id"] for call in message.get("tool_calls", ())]
        assert len(set(waiting)) == len(waiting)
    assert waiting == []


@given(MESSAGES)
def test_what_comes_out_is_valid_on_the_wire(messages: list[dict[str, Any]]) -> None:
    for message in repair_messages(messages):
        json.dumps(message, ensure_ascii=False).encode("utf-8")
        assert isinstance(message["content"], str | list)
        for call in message.get("tool_calls", ()):
            assert isinstance(json.loads(call["function"]["arguments"]), dict)


@given(MESSAGES, st.sets(st.sampled_from(["a", "b", "call_0", "a_2"])))
def test_no_two_calls_of_a_conversation_have_one_id(messages: list[dict[str, Any]], known: set[str]) -> None:
    """C10: the result of one would be read as that of another. Nor one that the conversation knew before."""
    repaired = repair_messages(messages, known)
    ids = [call["id"] for message in repaired for call in message.get("tool_calls", ())]
    assert len({*ids, *known}) == len(ids) + len(known)


@pytest.mark.parametrize(
    ("own", "moved"),
    [
        ({"calls": {"a": {"signed": "x"}}}, {"calls": {"a_2": {"signed": "x"}}}),
        ({"items": [{"call_id": "a", "id": "fc_1"}]}, {"items": [{"call_id": "a_2", "id": "fc_1"}]}),
        ({"blocks": [{"id": "a", "input": {"id": "a"}}, {}]}, {"blocks": [{"id": "a_2", "input": {"id": "a"}}, {}]}),
        ({"blocks": "none", "items": [None]}, {"blocks": "none", "items": [None]}),
    ],
)
def test_what_a_provider_keeps_of_a_call_goes_along_with_its_new_id(own: Any, moved: Any) -> None:
    """D7"""
    call = {"id": "a", "type": "function", "function": {"name": "look", "arguments": "{}"}}
    message = {"role": "assistant", "content": "", "tool_calls": [call], "provider_data": {"dialect": "d", **own}}
    result = {"role": "tool", "tool_call_id": "a", "content": "seen"}
    asked, answered = repair_messages([message, result], ["a"])
    assert asked["tool_calls"][0]["id"] == answered["tool_call_id"] == "a_2"
    assert asked["provider_data"] == {"dialect": "d", **moved}


def test_a_call_without_result_gets_an_honest_one() -> None:
    call = {"id": "a", "type": "function", "function": {"name": "look", "arguments": "{}"}}
    repaired = repair_messages(
        [{"role": "assistant", "content": "", "tool_calls": [call]}, {"role": "user", "content": "?"}]
    )
    assert [message["role"] for message in repaired] == ["assistant", "tool", "user"]
    assert repaired[1]["content"] == UNKNOWN_OUTCOME


def test_broken_arguments_are_kept_as_text() -> None:
    call = {"id": "a", "function": {"name": "look", "arguments": '{"at": '}}
    (message, _) = repair_messages([{"role": "assistant", "content": "", "tool_calls": [call]}])
    assert json.loads(message["tool_calls"][0]["function"]["arguments"]) == {INVALID_ARGUMENTS: '{"at":'}
