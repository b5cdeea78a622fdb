"""C7, D13: what happens behind the end of an answer changes nothing about it: it is kept, shown and paid once."""

import json
import threading
from collections.abc import Iterator

import pytest
from raw_model_server import RawModelServer

from hermes_constants import get_hermes_home
from run_agent import AIAgent

HEAD = b"HTTP/1.1 200 X\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
CHAT = (
    {"choices": [{"index": 0, "delta": {"role": "assistant", "content": "All of it."}}]},
    {"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]},
)
MESSAGES = (
    {"type": "message_start", "message": {"id": "m", "role": "assistant", "content": [], "usage": {"input_tokens": 1}}},
    {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}},
    {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "All of it."}},
    {"type": "content_block_stop", "index": 0},
    {"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": {"output_tokens": 1}},
    {"type": "message_stop"},
)
ITEM = {"type": "message", "id": "i", "role": "assistant", "content": [{"type": "output_text", "text": "All of it."}]}
RESPONSES = (
    {"type": "response.created", "response": {"id": "r", "status": "in_progress", "output": []}},
    {"type": "response.output_text.delta", "item_id": "i", "output_index": 0, "delta": "All of it."},
    {"type": "response.output_item.done", "output_index": 0, "item": ITEM},
    {"type": "response.completed", "response": {"id": "r", "status": "completed", "output": [ITEM], "usage": None}},
)
FORMATS = {"chat_completions": CHAT, "anthropic_messages": MESSAGES, "codex_responses": RESPONSES}


def write_events(events: tuple[dict[str, object], ...]) -> bytes:
    body = b"".join(f"event: {event.get('type', '')}\ndata: {json.dumps(event)}\n\n".encode() for event in events)
    return b"%x\r\n%s\r\n" % (len(body), body)


@pytest.mark.parametrize("hangs", [False, True])
@pytest.mark.parametrize("mode", FORMATS)
def test_a_whole_answer_is_not_asked_for_again(mode: str, hangs: bool) -> None:
    """The connection breaks, or stays open in silence, after the answer's end and before the stream's."""
    get_hermes_home().mkdir(exist_ok=True)
    let_go = threading.Event()

    def answer() -> Iterator[bytes]:
        yield HEAD
        yield write_events(FORMATS[mode])
        if hangs:
            let_go.wait(60)

    class Server(RawModelServer):
        @property
        def answer(self) -> Iterator[bytes]:  # type: ignore[override]
            return answer()

        @answer.setter
        def answer(self, value: object) -> None:
            del value

    with Server() as server:
        agent = AIAgent(model="m", base_url=server.base_url, api_key="k", api_mode=mode, enabled_toolsets=[])
        result = agent.run_conversation("hi")
        let_go.set()
        assert (result["final_response"], result["completed"]) == ("All of it.", True), result
        assert server.requests <= 1
