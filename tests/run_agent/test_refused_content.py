"""A picture or a text that a provider refuses does not block its conversation, nor send others elsewhere: real turns
against a server that refuses it wherever it stands in a request."""

import base64
import json
from collections.abc import Iterator
from typing import Any

import pytest
from moody_model import MoodyModel, answer, call, refuse

from hermes_base.chat import LastingNotice
from hermes_base.turn.journal import shown_text
from hermes_lab.server import LabServer

PNG = base64.b64encode(b"\x89PNG\r\n\x1a\n" + bytes(40)).decode()
PICTURE = {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{PNG}"}}
LOOK = [{"type": "text", "text": "look at this"}, PICTURE]
NO_PICTURES = 404, "No endpoints found that support image input"
TOO_LARGE = 413, "Request Entity Too Large"
NOT_THIS = 400, "Invalid prompt: your prompt was flagged as potentially violating our usage policy."


@pytest.fixture
def model() -> Iterator[MoodyModel]:
    with MoodyModel() as server:
        yield server


@pytest.fixture
def second() -> Iterator[LabServer]:
    with LabServer() as server:
        yield server


def entry(server: LabServer) -> dict[str, Any]:
    return {"provider": "custom", "base_url": server.base_url, "model": "second", "api_key": "second-key-1"}


def sent(request: bytes) -> list[dict[str, Any]]:
    return [message for message in json.loads(request)["messages"] if message["role"] != "system"]


def people_see(agent: Any) -> list[tuple[str, str]]:
    return [(row.message["role"], shown_text(row)) for row in agent.journal.load().rows]


def test_a_refused_text_is_left_out_and_the_next_message_is_answered(make_agent: Any, model: MoodyModel) -> None:
    """D11, E1: people keep what was said, the model reads a word of ours in its place."""
    agent = make_agent(base_url=model.base_url)
    model.mood = refuse(b"secret plan", *NOT_THIS, answer("well"))
    refused = agent.run_conversation("the secret plan")
    assert not refused["completed"]
    assert "flagged" in refused["error"]
    assert "left out" in refused["error"]
    assert agent.run_conversation("hello")["final_response"] == "well"
    assert "left out" in sent(model.requests[-1])[0]["content"]
    assert people_see(agent)[0] == ("user", "the secret plan")
    assert agent.last_exchange().text == "hello"


def test_a_refused_result_of_a_tool_is_left_out_with_its_turn(make_agent: Any, tool: Any, model: MoodyModel) -> None:
    """D11, E1: what was done stays in sight of people."""
    tool("fetch", lambda args: "the secret plan")
    agent = make_agent(base_url=model.base_url)

    def fetch_first(request: bytes) -> Iterator[bytes | None]:
        yield from (answer("well")(request) if b'"hello"' in request else iter([call(("fetch", {}))]))

    model.mood = refuse(b"secret plan", *NOT_THIS, fetch_first)
    assert not agent.run_conversation("go on")["completed"]
    model.mood = refuse(b"secret plan", *NOT_THIS, answer("well"))
    assert agent.run_conversation("hello")["final_response"] == "well"
    assert ("tool", "the secret plan") in people_see(agent)


@pytest.mark.parametrize("asked", [LOOK, [PICTURE]], ids=["with a text", "alone"])
@pytest.mark.parametrize("refusal", [NO_PICTURES, TOO_LARGE], ids=["kind", "size"])
def test_a_refused_picture_does_not_block_the_conversation(
    make_agent: Any, model: MoodyModel, asked: list[dict[str, Any]], refusal: tuple[int, str]
) -> None:
    """D11: with a text beside it the model is asked without it; alone it is refused, and the next is answered."""
    agent = make_agent(base_url=model.base_url)
    notices: list[str] = []
    agent.emit = lambda event: notices.append(event.text) if isinstance(event, LastingNotice) else None
    model.mood = refuse(b"image_url", *refusal, answer("well"))
    result = agent.run_conversation(asked)
    assert result["completed"] == (asked is LOOK)
    told = " ".join(notices) if result["completed"] else result["error"]
    assert refusal[1] in told
    assert "/retry" in told
    assert asked is not LOOK or agent.last_exchange().parts == (PICTURE,)
    assert agent.run_conversation("hello")["final_response"] == "well"
    assert len(model.requests) == (3 if asked is LOOK else 2)


def test_pictures_of_another_models_time_are_left_out_when_the_new_one_refuses_them(
    make_agent: Any, model: MoodyModel
) -> None:
    """D11: the refused picture was answered once, by somebody who takes pictures; a good text needs no second try."""
    agent = make_agent(base_url=model.base_url)
    assert agent.run_conversation(LOOK)["completed"]
    model.mood = refuse(b"image_url", *NO_PICTURES, answer("well"))
    result = agent.run_conversation("and now?")
    assert (result["final_response"], result["prefix_breaks"]) == ("well", [("left_out", 0)])
    assert people_see(agent)[0] == ("user", "look at this")
    assert [message["role"] for message in sent(model.requests[-1])] == ["user", "assistant", "user"]


@pytest.mark.parametrize(
    ("status", "message"),
    [
        NO_PICTURES,
        (400, "This model is not supported for image input"),
        (500, "image input is not supported - hint: you may need to provide the mmproj"),
        (429, "Request too large for m1: Limit 30000, Requested 41000 tokens per min"),
    ],
)
def test_one_chats_picture_goes_to_the_fallback_and_leaves_the_others_where_they_are(
    make_agent: Any, model: MoodyModel, second: LabServer, status: int, message: str
) -> None:
    """D3, D10: it says something about this request only."""
    model.mood = refuse(b"image_url", status, message, answer("well"))
    one = make_agent(base_url=model.base_url, fallback_model=entry(second))
    assert one.run_conversation(LOOK)["model"] == "second"
    other = make_agent(base_url=model.base_url, fallback_model=entry(second))
    assert other.run_conversation("hello")["model"] == "lab-model"


def test_a_picture_is_labelled_by_its_bytes(make_agent: Any, model: MoodyModel) -> None:
    """D1: providers refuse one whose label is wrong, and every later message with it."""
    agent = make_agent(base_url=model.base_url)
    gif = base64.b64encode(b"GIF89a" + bytes(40)).decode()
    agent.run_conversation(
        [{"type": "text", "text": "look"}, {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{gif}"}}]
    )
    assert f"data:image/gif;base64,{gif}" in model.requests[0].decode()
