"""G6: what enters the transcript holds no secret in any of its fields; what a provider signed is whole or left out."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.formats.repair import clean_message
from hermes_base.text.redact import Redactor
from hermes_cli import config
from hermes_lab.server import LabServer
from run_agent import AIAgent

KEY = "sk-canary-5d1c77aa"
redact = Redactor({"KEY": KEY})
VALUES: Any = st.recursive(
    st.sampled_from([KEY, f"a {KEY} b", "plain", 5, None, True]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["a", "type", "b", KEY]), inner),
    max_leaves=12,
)


@given(st.dictionaries(st.sampled_from(["content", "reasoning", "name", "odd"]), VALUES), VALUES)
def test_no_field_keeps_a_secret(fields: dict[str, Any], own: Any) -> None:
    """G6"""
    blocks = {"dialect": "x", "blocks": [own], "items": [own, own], "fields": {"a": own}, "calls": {"1": {"x": own}}}
    calls = [{"id": KEY, "function": {"name": KEY, "arguments": json.dumps({"a": KEY})}}]
    clean = clean_message({"role": "assistant", "tool_calls": calls, **fields, "provider_data": blocks}, redact)
    assert KEY not in json.dumps(clean)
    assert clean_message(clean, redact) == clean


@pytest.mark.parametrize(
    "block",
    [
        {"type": "thinking", "thinking": f"It is {KEY}.", "signature": "x"},
        {"type": "reasoning", "encrypted_content": "x", "summary": [{"text": KEY}]},
        {"type": "reasoning.text", "text": KEY, "signature": "x"},
    ],
)
def test_a_signed_block_with_a_secret_is_left_out(block: dict[str, Any]) -> None:
    """G6: changed it would be refused for ever."""
    other = {"type": "thinking", "thinking": "Well.", "signature": "y"}
    text = {"type": "text", "text": f"Use {KEY}."}
    message = {"role": "assistant", "content": "", "provider_data": {"dialect": "d", "blocks": [block, other, text]}}
    kept = clean_message(message, redact)["provider_data"]["blocks"]
    assert kept == [other, {"type": "text", "text": "Use [redacted KEY]."}]


def test_what_holds_no_secret_is_kept_to_the_letter() -> None:
    own = {"dialect": "d", "blocks": [{"type": "thinking", "thinking": "Hm.", "signature": "s"}]}
    message = {"role": "assistant", "content": "Hi", "provider_data": own}
    assert clean_message(message, redact) == message


@pytest.mark.parametrize("api_mode", ["chat_completions", "anthropic_messages", "codex_responses"])
def test_a_conversation_goes_on_after_thoughts_with_a_secret(lab: LabServer, api_mode: str) -> None:
    """G6, D10: no later request is refused, and none of them holds the secret."""
    config.set_value("MY_SERVICE_API_KEY", KEY)
    lab.set_plan([{"reasoning": f"The key is {KEY}.", "text": f"It is {KEY}."}, {"text": "Still here."}])
    address = lab.address if api_mode == "anthropic_messages" else lab.base_url
    agent = AIAgent(
        base_url=address,
        model="claude-opus-5" if api_mode == "anthropic_messages" else "lab",
        api_mode=api_mode,
        api_key="k",
        reasoning_config={"enabled": True, "effort": "low"},
    )
    try:
        assert agent.run_conversation("Which key?")["final_response"] == "It is [redacted MY_SERVICE_API_KEY]."
        assert agent.run_conversation("And now?")["final_response"] == "Still here."
        assert KEY not in json.dumps(agent.messages)
    finally:
        agent.close()
    assert KEY.encode() not in lab.requests[-1].body
