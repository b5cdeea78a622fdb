"""Reads an answer of the Messages format, streamed or whole, into a Reply."""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from agent.formats.anthropic_blocks import THINKING_BLOCKS, Block, parse_arguments
from agent.formats.reply import Reply, Tell, ToolCall, make_own_data
from agent.usage_pricing import usage_from_anthropic

_FINISH_REASONS: Mapping[str, str] = {
    "end_turn": "stop",
    "stop_sequence": "stop",
    "pause_turn": "stop",
    "tool_use": "tool_calls",
    "max_tokens": "length",
    "model_context_window_exceeded": "length",
    "refusal": "content_filter",
}
#: The kinds of delta: which field of it holds the piece, and to which kind of block it belongs.
_PIECES: Mapping[str, tuple[str, str]] = {
    "text_delta": ("text", "text"),
    "thinking_delta": ("thinking", "thinking"),
    "input_json_delta": ("partial_json", "tool_use"),
}
#: Which field of a block that comes in one piece holds its text.
_TEXT_FIELDS: Mapping[str, str] = {"text": "text", "thinking": "thinking"}


@dataclass(slots=True)
class _Growing:
    """A content block on its way."""

    start: Mapping[str, Any]
    kind: str
    pieces: list[str] = field(default_factory=list)
    signature: str = ""

    @property
    def text(self) -> str:
        return "".join(self.pieces)


class MessageReader:
    """Collects the events of one answer; `reply()` is only right when `whole` is True."""

    def __init__(self, dialect: str = "", on_text: Tell | None = None, on_reasoning: Tell | None = None) -> None:
        self._dialect = dialect
        self._listeners = {"text": on_text, "thinking": on_reasoning}
        self._blocks: dict[int, _Growing] = {}
        self._stop_reason = ""
        self._usage: Mapping[str, Any] = {}
        self._newer_usage: Mapping[str, Any] = {}
        self._model = ""
        self.whole = False  # the end was seen: a reason to stop, message_stop, or a message in one piece

    @property
    def text(self) -> str:
        return self._join("text")

    def feed(self, chunk: Mapping[str, Any]) -> None:
        take = _EVENTS.get(str(chunk.get("type")))
        if take is not None:
            take(self, chunk)

    def finish(self) -> None:
        """An answer that gave its reason to stop is over. [DONE] is no part of this format; some gateways send it."""
        self.whole = self.whole or bool(self._stop_reason)

    def reply(self) -> Reply:
        finish_reason = _FINISH_REASONS.get(self._stop_reason, "stop")
        ended = [(block, self._make_call(place, block)) for place, block in sorted(self._blocks.items())]
        calls = tuple(call for _, call in ended if call is not None)
        kept = [block for block in (_close_block(block, call) for block, call in ended) if block]
        thought = any(block["type"] in THINKING_BLOCKS for block in kept)
        return Reply(
            text=self.text,
            reasoning=self._join("thinking"),
            tool_calls=calls,
            finish_reason=finish_reason if self._stop_reason or not calls else "tool_calls",
            usage=usage_from_anthropic(self._usage, self._newer_usage),
            model=self._model,
            extra=make_own_data(self._dialect, blocks=kept) if thought else {},
        )

    # --- events

    def _take_start(self, event: Mapping[str, Any]) -> None:
        message = event.get("message") or {}
        self._model = str(message.get("model") or "")
        self._usage = message.get("usage") or {}

    def _take_message(self, message: Mapping[str, Any]) -> None:
        """The answer in one piece."""
        self._take_start({"message": message})
        for place, block in enumerate(message.get("content") or ()):
            self._open_block(place, block)
        self._stop_reason = str(message.get("stop_reason") or "")
        self.whole = True

    def _take_block(self, event: Mapping[str, Any]) -> None:
        self._open_block(int(event.get("index") or 0), event.get("content_block") or {})

    def _open_block(self, place: int, start: Mapping[str, Any]) -> None:
        signature = str(start.get("signature") or "")
        block = self._blocks[place] = _Growing(start, str(start.get("type") or ""), signature=signature)
        said = start.get(_TEXT_FIELDS.get(block.kind, ""))
        if said:
            self._grow(block, block.kind, str(said))

    def _take_delta(self, event: Mapping[str, Any]) -> None:
        delta = event.get("delta") or {}
        place, kind = int(event.get("index") or 0), str(delta.get("type"))
        block = self._blocks.get(place)
        if kind == "signature_delta" and block is not None:
            block.signature = str(delta.get("signature") or "")
        if kind not in _PIECES:
            return
        field, belongs = _PIECES[kind]
        if block is None:
            block = self._blocks[place] = _Growing({}, belongs)
        piece = delta.get(field)
        if piece and block.kind == belongs:
            self._grow(block, belongs, piece)

    def _grow(self, block: _Growing, kind: str, piece: str) -> None:
        if not isinstance(piece, str):
            raise TypeError("a piece of text is no text")
        block.pieces.append(piece)
        listener = self._listeners.get(kind)
        if listener is not None:
            listener(piece)

    def _take_end(self, event: Mapping[str, Any]) -> None:
        self._stop_reason = str((event.get("delta") or {}).get("stop_reason") or self._stop_reason)
        self._newer_usage = {**self._newer_usage, **(event.get("usage") or {})}
        self.finish()  # some never send message_stop

    def _take_stop(self, event: Mapping[str, Any]) -> None:
        del event  # it says no more than that the message is over
        self.whole = True

    # --- what they add up to

    def _join(self, kind: str) -> str:
        return "".join(block.text for _, block in sorted(self._blocks.items()) if block.kind == kind)

    def _make_call(self, place: int, block: _Growing) -> ToolCall | None:
        """A call; one that was cut at the output limit keeps what there is of its arguments, which is no JSON."""
        name = str(block.start.get("name") or "")
        if block.kind != "tool_use" or not name or not self.whole:
            return None
        cut = _FINISH_REASONS.get(self._stop_reason) == "length"
        given = block.start.get("input")  # filled where the call comes in one piece
        arguments = block.text or (json.dumps(given, ensure_ascii=False) if given or not cut else "")
        return ToolCall(str(block.start.get("id") or f"toolu_{place}"), name, arguments)


def _close_block(block: _Growing, call: ToolCall | None) -> Block | None:
    """A block as it has to be sent back: thinking to the letter; None: it cannot be sent back."""
    if call is not None:
        return {"type": "tool_use", "id": call.id, "name": call.name, "input": parse_arguments(call.arguments)}
    if block.kind == "thinking" and block.signature:
        return {"type": "thinking", "thinking": block.text, "signature": block.signature}
    if block.kind == "redacted_thinking":
        return {"type": "redacted_thinking", "data": block.start.get("data")}
    return {"type": "text", "text": block.text} if block.kind == "text" else None


_EVENTS: Mapping[str, Callable[[MessageReader, Mapping[str, Any]], None]] = {
    "message_start": MessageReader._take_start,
    "content_block_start": MessageReader._take_block,
    "content_block_delta": MessageReader._take_delta,
    "message_delta": MessageReader._take_end,
    "message_stop": MessageReader._take_stop,
    "message": MessageReader._take_message,
}
