"""Messages made fit for every provider; repairing twice is repairing once."""

import json
from typing import Any

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
