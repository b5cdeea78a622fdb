"""Reads an answer of the Responses format, streamed or in one document, into a Reply and what has to be sent back."""

from collections.abc import Callable, Mapping
from typing import Any, ClassVar

from agent.formats.reply import Reply, Tell, ToolCall, make_own_data
from agent.usage_pricing import usage_from_responses

Event = Mapping[str, Any]
#: Stands between two messages of one answer, and between two parts of its reasoning.
GAP = "\n\n"
_ENDS = frozenset({"completed", "incomplete"})
#: Why an answer is incomplete, in neutral words; an unknown reason is a cut.
_CUT_REASONS: Mapping[str, str] = {"max_output_tokens": "length", "content_filter": "content_filter"}
#: What the server adds to a reasoning item and refuses to read again.
_OUTPUT_ONLY = frozenset({"status"})


class ResponseReader:
    """Collects the events of one answer. Only finished items count, so half a call is never one.

    `reply()` is only right when `whole` is True.
    """

    def __init__(self, dialect: str = "", on_text: Tell | None = None, on_reasoning: Tell | None = None) -> None:
        self._dialect = dialect
        self._on_text = on_text
        self._on_reasoning = on_reasoning
        self._text: list[str] = []
        self._begun = 0  # where in _text the open message begins
        self._gap = False  # a message was finished: the next one stands apart from it
        self._reasoning: list[str] = []
        self._thought = 0  # how much of _reasoning belongs to finished items
        self._items: list[tuple[int, Event, str]] = []  # place, item, the text that was shown for it
        self._arguments: dict[object, str] = {}
        self._refused = False
        self._response: Event = {}
        self.whole = False

    @property
    def text(self) -> str:
        return "".join(self._text)

    def feed(self, chunk: Event) -> None:
        take = self._TAKERS.get(chunk.get("type"))
        if take is not None:
            take(self, chunk)

    def finish(self) -> None:
        """[DONE] is no word of this format: only the response's own end makes an answer whole."""

    def reply(self) -> Reply:
        items = sorted(self._items, key=lambda entry: entry[0])
        calls = tuple(_read_call(item) for _, item, _ in items if _is_call(item))
        places = [place for _, item, text in items if (place := _keep(item, text)) is not None]
        worth_keeping = any(place["type"] == "reasoning" or "phase" in place for place in places)
        return Reply(
            text=self.text,
            reasoning="".join(self._reasoning),
            tool_calls=calls,
            finish_reason=self._find_reason(calls),
            usage=usage_from_responses(self._response.get("usage")),
            model=str(self._response.get("model") or ""),
            extra=make_own_data(self._dialect, items=places) if worth_keeping else {},
        )

    def _find_reason(self, calls: tuple[ToolCall, ...]) -> str:
        if self._response.get("status") == "incomplete":
            details = self._response.get("incomplete_details") or {}
            return _CUT_REASONS.get(str(details.get("reason")), "length")
        if any(_is_cut(item) for _, item, _ in self._items):
            return "length"
        if self._refused:
            return "content_filter"
        return "tool_calls" if calls else "stop"

    # --- one function for each kind of event

    def _take_text(self, event: Event) -> None:
        delta = event.get("delta")
        if not delta:
            return
        if not isinstance(delta, str):
            raise TypeError("a piece of text is no text")
        if self._gap:  # another message begins
            self._gap = False
            self._text.append(GAP)
            self._begun = len(self._text)
            if self._on_text:
                self._on_text(GAP)
        self._text.append(delta)
        if self._on_text:
            self._on_text(delta)

    def _take_refusal(self, event: Event) -> None:
        self._refused = True
        self._take_text(event)

    def _take_reasoning(self, event: Event) -> None:
        delta = event.get("delta")
        if delta:
            if not isinstance(delta, str):
                raise TypeError("a piece of reasoning is no text")
            self._reasoning.append(delta)
            if self._on_reasoning:
                self._on_reasoning(delta)

    def _take_new_thought(self, event: Event) -> None:
        if self._reasoning:
            self._take_reasoning({"delta": GAP})

    def _take_arguments(self, event: Event) -> None:
        self._arguments[event.get("item_id")] = str(event.get("arguments") or "")

    def _take_item(self, event: Event) -> None:
        item = event.get("item") or {}
        place = event.get("output_index", len(self._items))
        text = ""
        if item.get("type") == "message":
            text = self._close_message(item)
        elif item.get("type") == "reasoning":
            if len(self._reasoning) == self._thought:  # nothing of it was streamed
                parts = item.get("summary") or item.get("content") or ()
                told = GAP.join(str(part.get("text") or "") for part in parts)
                self._take_reasoning({"delta": GAP + told if told and self._reasoning else told})
            self._thought = len(self._reasoning)
        elif _is_call(item) and not item.get("arguments"):
            item = {**item, "arguments": self._arguments.get(item.get("id"), "")}
        self._items.append((place, item, text))

    def _take_start(self, event: Event) -> None:
        self._response = event.get("response") or {}

    def _take_end(self, event: Event) -> None:
        self._response = response = event.get("response") or {}
        # Some servers tell the items only here; a call that was cut off may stand only here, too.
        for item in (response.get("output") or ())[len(self._items) :]:
            self._take_item({"item": item})
        self.whole = True

    def _take_document(self, document: Event) -> None:
        """An answer that was not streamed is the response itself."""
        if document.get("status") in _ENDS:
            self._take_end({"response": document})

    _TAKERS: ClassVar[Mapping[object, Callable[["ResponseReader", Event], None]]] = {
        "response.output_text.delta": _take_text,
        "response.refusal.delta": _take_refusal,
        "response.reasoning_summary_text.delta": _take_reasoning,
        "response.reasoning_text.delta": _take_reasoning,
        "response.reasoning_summary_part.added": _take_new_thought,
        "response.function_call_arguments.done": _take_arguments,
        "response.output_item.done": _take_item,
        "response.created": _take_start,
        "response.completed": _take_end,
        "response.incomplete": _take_end,
        None: _take_document,
    }

    def _close_message(self, item: Event) -> str:
        """The text of a finished message; what was not streamed of it is shown now."""
        parts = [part for part in item.get("content") or () if isinstance(part, Mapping)]
        self._refused = self._refused or any(part.get("type") == "refusal" for part in parts)
        whole = "".join(str(part.get("text") or part.get("refusal") or "") for part in parts)
        shown = "" if self._gap else "".join(self._text[self._begun :])
        if whole.startswith(shown):
            self._take_text({"delta": whole[len(shown) :]})
        elif whole:
            self._text[self._begun :] = [whole]
        self._gap = bool(self._text)
        return whole or shown


def _is_call(item: Event) -> bool:
    return item.get("type") == "function_call" and bool(item.get("name"))


def _is_cut(item: Event) -> bool:
    return _is_call(item) and item.get("status", "completed") != "completed"


def _read_call(item: Event) -> ToolCall:
    """A call that was cut off keeps its name, so that the model can be told, and none of its half arguments."""
    arguments = "" if _is_cut(item) else str(item.get("arguments") or "")
    return ToolCall(_call_id(item), str(item["name"]), arguments or "{}")


def _call_id(item: Event) -> str:
    return str(item.get("call_id") or item.get("id") or "call")


def _keep(item: Event, text: str) -> dict[str, Any] | None:
    """What later requests need of an item: sealed reasoning as it came; of the rest its place, id and phase."""
    if item.get("type") == "reasoning":
        # A bare id points to nothing, since answers are not stored at the provider: such an item would be refused.
        if not (item.get("encrypted_content") or item.get("content")):
            return None
        kept = {name: value for name, value in item.items() if value is not None and name not in _OUTPUT_ONLY}
        return {**kept, "summary": item.get("summary") or []}
    if _is_call(item):
        return {"type": "function_call", "call_id": _call_id(item)} | _pick(item, () if _is_cut(item) else ("id",))
    return {"type": "message", "chars": len(text)} | _pick(item, ("id", "phase")) if text else None


def _pick(item: Event, names: tuple[str, ...]) -> dict[str, Any]:
    return {name: item[name] for name in names if item.get(name)}
