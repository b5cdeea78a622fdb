"""The Responses format through the real client against the lab server: a tool loop with sealed reasoning and images."""

import json
from collections.abc import Iterator
from itertools import pairwise
from typing import Any

import pytest

from agent.formats import responses as wire
from agent.formats.repair import write_reply
from agent.formats.reply import Reply
from agent.formats.wire import CallSettings
from agent.http.clients import StreamCall, build_openai_client, release_client, stream
from agent.providers.table import PROVIDERS
from agent.usage_pricing import CanonicalUsage
from hermes_base.errors import ModelFailure
from hermes_base.turn.cancel import CancelToken
from hermes_lab.server import LabServer

DIALECT = "codex_responses"
PIXEL = (
    "data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJ"
    "AAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)
TOOLS = [
    {"type": "function", "function": {"name": name, "description": "d", "parameters": {"type": "object"}}}
    for name in ("look", "list")
]
SETTINGS = CallSettings("lab", reasoning={"effort": "low"})


@pytest.fixture(scope="module")
def lab() -> Iterator[LabServer]:
    with LabServer() as server:
        yield server


@pytest.fixture
def client(lab: LabServer) -> Iterator[Any]:
    lab.set_plan([])
    lab.clear_requests()
    lab.clear_bill()
    made = build_openai_client(api_key="sk-lab", base_url=lab.base_url)
    yield made
    release_client(made)


class Talk:
    """A conversation whose fragments are encoded once."""

    def __init__(self, client: Any) -> None:
        self._client = client
        self._tools, self._system = wire.encode_tools(TOOLS), wire.encode_system("You are Hermes. " * 300)
        self.fragments: list[bytes] = []

    def add(self, message: dict[str, Any]) -> None:
        self.fragments.append(wire.encode_message(message, DIALECT))

    def ask(self, settings: CallSettings = SETTINGS) -> Reply:
        tail = wire.make_tail(PROVIDERS["openai"], settings)
        body = wire.join_request(settings.model, self._tools, self._system, self.fragments, tail)
        shown: list[str] = []
        answer = wire.read_answer(DIALECT, shown.append)
        call = StreamCall(wire, body, "the lab")
        reply = stream(self._client, call, answer, CancelToken(), lambda: None)
        assert "".join(shown) == reply.text
        self.add(write_reply(reply))
        return reply


def test_a_conversation_with_tools_reasoning_and_images(lab: LabServer, client: Any) -> None:
    """A1: each request starts with the bytes of the one before; the bill is what the answers said."""
    talk = Talk(client)
    total = CanonicalUsage()
    for turn in range(6):
        first = f"[[reason thought {turn}]] [[say looking 世界]] [[tool look]] [[tool list]]"
        script = f"{first} [[then]] [[reason b]] [[say ok {turn}]]"
        image = {"type": "image_url", "image_url": {"url": PIXEL}}
        talk.add({"role": "user", "content": [{"type": "text", "text": script}, image]})
        reply = talk.ask()
        assert (reply.text, reply.reasoning, reply.finish_reason) == ("looking 世界", f"thought {turn}", "tool_calls")
        assert [call.name for call in reply.tool_calls] == ["look", "list"]
        seen = {"_multimodal": True, "content": [{"type": "text", "text": "seen"}, image]}
        for call, content in zip(reply.tool_calls, (json.dumps(seen), "plain"), strict=True):
            talk.add({"role": "tool", "tool_call_id": call.id, "content": content})
        last = talk.ask()
        assert (last.text, last.finish_reason) == (f"ok {turn}", "stop")
        assert reply.usage is not None
        assert last.usage is not None
        total = total + reply.usage + last.usage
    bodies = [request.body for request in lab.requests]
    assert len(bodies) == 12
    for before, after in pairwise(bodies):
        assert after.startswith(before[: before.rindex(b'],"stream":')])
    billed = lab.bill["sk-lab"]
    assert (billed.prompt_tokens, billed.cache_read_tokens) == (total.prompt_tokens, total.cache_read_tokens)
    assert (billed.output_tokens, billed.reasoning_tokens) == (total.output_tokens, total.reasoning_tokens)
    assert total.cache_read_tokens >= 0.99 * billed.readable_tokens > 0
    assert billed.readable_tokens == billed.previous_tokens


def test_reasoning_goes_back_sealed(lab: LabServer, client: Any) -> None:
    talk = Talk(client)
    talk.add({"role": "user", "content": "[[reason deep]] [[tool list]] [[then]] [[say done]]"})
    call = talk.ask().tool_calls[0]
    talk.add({"role": "tool", "tool_call_id": call.id, "content": "r"})
    assert talk.ask().text == "done"
    sent = lab.requests[-1].json()["input"]
    assert [item["type"] for item in sent] == ["message", "reasoning", "function_call", "function_call_output"]
    assert sent[1]["encrypted_content"]


@pytest.mark.parametrize(
    ("script", "reason"),
    [("[[length]] [[say a]]", "length"), ("[[refuse]] [[say a]]", "content_filter"), ("[[say a]]", "stop")],
)
def test_reasons_to_stop(client: Any, script: str, reason: str) -> None:
    talk = Talk(client)
    talk.add({"role": "user", "content": script})
    assert talk.ask().finish_reason == reason


@pytest.mark.parametrize(
    ("script", "status"), [("[[fail 503]]", 503), ("[[say a]] [[error 3 429]]", 429), ("[[fail 400]]", 400)]
)
def test_failures(client: Any, script: str, status: int) -> None:
    talk = Talk(client)
    talk.add({"role": "user", "content": script})
    with pytest.raises(ModelFailure) as raised:
        talk.ask()
    assert raised.value.status == status


def test_a_response_that_fails_after_it_began(lab: LabServer, client: Any) -> None:
    fault = {"error_after_chunks": 4, "failed_answer": True, "status": 500, "message": "It broke."}
    lab.set_plan([{"text": "one two", "fault": fault}])
    talk = Talk(client)
    talk.add({"role": "user", "content": "hi"})
    with pytest.raises(ModelFailure, match="It broke"):
        talk.ask()


def test_no_tools_when_the_model_has_to_answer(lab: LabServer, client: Any) -> None:
    talk = Talk(client)
    talk.add({"role": "user", "content": "hello"})
    assert talk.ask(CallSettings("lab", with_tools=False)).text == "You said: hello"
    assert lab.requests[-1].json()["tool_choice"] == "none"
