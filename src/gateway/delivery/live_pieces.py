"""What processes tell each other of a conversation while it happens, as text that fits into a hint. Pure.

Each piece names conversation, epoch, turn and number, and the number of the piece before it: so whoever gets them knows
when one is missing, comes twice or late, or was sent under a claim that holds no more.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any

import msgspec

from gateway.platforms.face import Asking, Begun, Dealt, Heard, Judged, Moved, Taken, Titled
from gateway.platforms.hub import Lost, Picture, Posted, Sent, ToolShown, Watched
from hermes_base.chat import (
    GAP,
    LastingNotice,
    Notice,
    ReasoningDelta,
    TextDelta,
    TextEnded,
    ToolEnded,
    ToolStarted,
)

_KINDS: Mapping[str, type] = MappingProxyType(
    {
        kind.__name__: kind
        for kind in (
            TextDelta,
            ReasoningDelta,
            TextEnded,
            ToolStarted,
            ToolEnded,
            Notice,
            LastingNotice,
            Heard,
            Judged,
            Begun,
            Taken,
            Dealt,
            Moved,
            Asking,
            Titled,
            Sent,
            Posted,
            Lost,
        )
    }
)
#: What anybody may tell of a conversation, whoever works there: it stands in the store.
BESIDE = (Heard, Titled, Sent, Posted, Lost)
#: What a picture of the turn has in it, or the store: whoever takes those has not missed it.
_KEPT = (TextDelta, ReasoningDelta, TextEnded, ToolStarted, ToolEnded, Begun, Taken, Heard, Asking, Sent, Posted, Lost)


@dataclass(frozen=True, slots=True)
class LivePiece:
    conversation: str
    epoch: int = 0  # of the claim under which it happened; 0: beside all claims
    turn: int = 0  # the first message of the turn under way; 0: there is none
    number: int = 0  # ever greater within a process
    after: int = 0  # the number of the piece before it; 0: the first of its epoch that was sent to anybody
    events: Sequence[Watched] = ()
    look: bool = False  # more happened than fits in here: look at the store, which has the picture of the turn


def write_piece(piece: LivePiece) -> str:
    told = [[type(event).__name__, msgspec.to_builtins(_bare(event))] for event in piece.events]
    numbers = [piece.epoch, piece.turn, piece.number, piece.after]
    text = json.dumps([piece.conversation, *numbers, piece.look, told], ensure_ascii=False, separators=(",", ":"))
    return text.encode("utf-8", "replace").decode()  # half a sign is none


def read_piece(text: str) -> LivePiece | None:
    """None: it is none that this version understands."""
    try:
        conversation, epoch, turn, number, after, look, told = json.loads(text)
        events: list[Watched] = [msgspec.convert(fields, _KINDS[name]) for name, fields in told]
        if not epoch:
            events = [event for event in events if isinstance(event, BESIDE)]
        return LivePiece(str(conversation), int(epoch), int(turn), int(number), int(after), events, bool(look))
    except (ValueError, TypeError, KeyError, msgspec.ValidationError, RecursionError):
        return None


def list_passing(events: Sequence[Watched]) -> list[Watched]:
    """Of events that are not told one by one, those that neither the store nor a picture has."""
    return [event for event in events if not isinstance(event, _KEPT)]


def _bare(event: Watched) -> Watched:
    """Without what is nobody's business elsewhere: what a kept yes would be about, only the asking process needs."""
    if isinstance(event, Asking) and event.question is not None:
        return Asking(replace(event.question, deed=None))
    return event


# --- pictures


def write_picture(picture: Picture, number: int) -> dict[str, Any]:
    """What a turn has shown up to the piece of this number."""
    text, reasoning = picture.text, picture.reasoning
    return {
        "number": number,
        "seqs": list(picture.seqs),
        "begun": picture.begun,
        "rows": picture.rows,
        "taken": sorted(picture.taken),
        "text": [text.kept, text.open],
        "reasoning": [reasoning.kept, reasoning.open],
        "tools": msgspec.to_builtins(picture.tools),
    }


def read_picture(told: Mapping[str, Any]) -> tuple[Picture, int]:
    """The picture, and up to which piece it goes."""
    rows = int(told.get("rows", 0))  # an older version does not say it: nearly always it is a first try
    picture = Picture(tuple(told["seqs"]), float(told["begun"]), rows)
    picture.taken = frozenset(told["taken"])
    for texts, (kept, open) in ((picture.text, told["text"]), (picture.reasoning, told["reasoning"])):
        texts.add(kept)
        texts.end(kept=True)
        texts.add(open.removeprefix(GAP) if kept else open)
    picture.tools = msgspec.convert(told["tools"], tuple[ToolShown, ...])
    return picture, int(told["number"])
