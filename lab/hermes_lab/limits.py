"""The limits of a model: its context window, and the output limit at which an answer ends in the middle."""

from collections.abc import Mapping
from dataclasses import replace

from hermes_lab.prompt import count_tokens
from hermes_lab.values import Answer, Ask, Call, Finish

Window = int | Mapping[str, int] | None  # for all models, by model, or none


def find_window(window: Window, model: str) -> int | None:
    return window.get(model) if isinstance(window, Mapping) else window


def overflows(ask: Ask, window: int | None) -> bool:
    """True when prompt and output limit (at least one token) do not fit."""
    return window is not None and ask.prompt.tokens + (ask.limit or 1) > window


def find_room(ask: Ask, window: int | None) -> int | None:
    """How many tokens the answer may have; None: any number."""
    rooms = [room for room in (ask.limit, window and window - ask.prompt.tokens) if room is not None]
    return min(rooms, default=None)


def shorten_answer(answer: Answer, room: int | None) -> Answer:
    """The answer up to its limit: reasoning, then text, then calls, each as far as it fits."""
    if room is None:
        return answer
    reasoning = _cut_text(answer.reasoning, room)
    room -= count_tokens(reasoning.encode())
    text = _cut_text(answer.text, room)
    room -= count_tokens(text.encode())
    calls = _cut_calls(answer.calls, room)
    short = replace(answer, reasoning=reasoning, text=text, calls=calls)
    return answer if short == answer else replace(short, finish=Finish.LENGTH)


def _cut_text(text: str, room: int) -> str:
    data = text.encode()
    return text if len(data) <= room * 4 else data[: max(room, 0) * 4].decode("utf-8", "ignore")


def _cut_calls(calls: tuple[Call, ...], room: int) -> tuple[Call, ...]:
    kept: list[Call] = []
    for call in calls:
        space = room * 4 - len(call.name.encode())
        if space < 0:
            break
        arguments = call.arguments.encode()[:space].decode("utf-8", "ignore")
        kept.append(replace(call, arguments=arguments))
        if arguments != call.arguments:
            break
        room -= count_tokens(f"{call.name}{arguments}".encode())
    return tuple(kept)
