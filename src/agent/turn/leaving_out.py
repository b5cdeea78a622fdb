"""What a provider refuses of a conversation is left out of what is sent; people keep all of it.

A picture that is refused once is refused with every later message, and so is a text. So a word of ours takes its place,
what people are shown stays, and the pictures stay with the message, for whoever wants to ask again.
"""

from collections.abc import Callable, Mapping, Sequence

from agent.formats.multimodal import as_words, find_parts, is_image
from agent.formats.reply import without_own_data
from agent.turn.compaction import drop_signatures
from agent.turn.conversation import Conversation
from agent.turn.ports import Ports
from hermes_base.chat import LastingNotice
from hermes_base.errors import Concern, ModelFailure
from hermes_base.journal import LEFT_OUT, Row, begins_exchange, head_row, is_question, shown_text

#: What the model reads in the place of what was refused.
NOTE = "[What was said here is left out: the provider did not take it.]"
WITHOUT_PICTURES = "The model is asked without pictures; /retry sends them again."
FROM_NOW_ON = "It is kept, and is left out of what the model gets from now on; /retry sends it again."


def leave_out(ports: Ports, conversation: Conversation, failure: ModelFailure) -> bool:
    """True when what was refused is gone and the rest can be asked. One write: the rows from the first that was refused
    on are taken back, and stand again without it."""
    before, change = conversation.rows, _CHANGES.get(failure.concern)
    rows = drop_signatures(change(before), before) if change is not None else before
    place = next((place for place, row in enumerate(rows) if row is not before[place]), None)
    if place is None:
        return False
    conversation.replace_after(place, rows[place:], ports.journal.append([head_row(place), *rows[place:]]))
    if failure.concern is Concern.PICTURE and _has_text(rows):
        ports.emit(LastingNotice(f"{failure.what} {WITHOUT_PICTURES}", "warning"))
        return True
    failure.kept = FROM_NOW_ON
    return False


# --- which rows


def _leave_out_pictures(rows: Sequence[Row]) -> list[Row]:
    """Those since the last question; when it has none, all: they are of a time when another model answered."""
    first = _find_question(rows)
    first = first if any(map(_has_image, rows[first:])) else 0
    return [*rows[:first], *(_replace_pictures(row) if _has_image(row) else row for row in rows[first:])]


def _leave_out_turn(rows: Sequence[Row]) -> list[Row]:
    """Everything since the last question: which words of it were refused, nobody tells."""
    first = _find_question(rows)
    return [*rows[:first], *(_replace_words(row) if _is_said(row) else row for row in rows[first:])]


_CHANGES: Mapping[Concern, Callable[[Sequence[Row]], list[Row]]] = {
    Concern.PICTURE: _leave_out_pictures,
    Concern.TEXT: _leave_out_turn,
}


def _find_question(rows: Sequence[Row]) -> int:
    return max((place for place, row in enumerate(rows) if begins_exchange(row)), default=len(rows))


def _has_text(rows: Sequence[Row]) -> bool:
    """Whether the last question says something beside its pictures."""
    return any(shown_text(row).strip() for row in rows[_find_question(rows) :][:1])


def _has_image(row: Row) -> bool:
    return any(map(is_image, find_parts(row.message.get("content")) or ()))


def _is_said(row: Row) -> bool:
    """Whether it is somebody's words: a person's, a tool's, or the model's."""
    return is_question(row) or row.message["role"] != "user"


# --- one row


def _replace_pictures(row: Row) -> Row:
    return _replace_content(row, as_words(find_parts(row.message["content"]) or []))


def _replace_words(row: Row) -> Row:
    return _replace_content(row, "" if row.message.get("tool_calls") else NOTE)


def _replace_content(row: Row, words: str) -> Row:
    message = without_own_data(row.message)
    images = list(filter(is_image, find_parts(message["content"]) or ()))
    kept = {LEFT_OUT: images} if images and message["role"] == "user" else {}
    return Row({**message, "content": words, **kept}, shown_text(row))
