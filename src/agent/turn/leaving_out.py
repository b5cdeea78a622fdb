"""What a provider refuses of a conversation is left out of what is sent; people keep all of it.

A picture that is refused once is refused with every later message, and so is a text. So a word of ours takes its place,
what people are shown stays, and the pictures stay with the message, for whoever wants to ask again.
"""

from collections.abc import Sequence
from typing import Any

from agent.formats.multimodal import as_words, find_parts, is_image
from agent.formats.reply import without_own_data
from agent.turn.compaction import drop_signatures
from agent.turn.conversation import Conversation
from agent.turn.ports import Ports
from hermes_base.chat import LastingNotice
from hermes_base.errors import Concern, ModelFailure
from hermes_base.turn.journal import LEFT_OUT, Row, begins_exchange, head_row, is_question, shown_text

#: What the model reads in the place of what was refused.
NOTE = "[What was said here is left out: the provider did not take it.]"
WITHOUT_PICTURES = "The model is asked without pictures; /retry sends them again."
FROM_NOW_ON = "It is kept, and is left out of what the model gets from now on; /retry sends it again."


def leave_out(ports: Ports, conversation: Conversation, failure: ModelFailure) -> bool:
    """True when what was refused is gone and the rest can be asked. One write: the rows from the first that was refused
    on are taken back, and stand again without it."""
    before = conversation.rows
    rows = drop_signatures(_leave_out_of(before, failure.concern), before)
    place = next((place for place, row in enumerate(rows) if row is not before[place]), None)
    if place is None:
        return False
    version = ports.journal.append([head_row(place), *rows[place:]])
    conversation.forget_after(place, version, "left_out")
    conversation.note(rows[place:], version)
    # Whether the last question says something beside its pictures.
    has_text = any(shown_text(row).strip() for row in rows[_find_question(rows) :][:1])
    if failure.concern is Concern.PICTURE and has_text:
        ports.emit(LastingNotice(f"{failure.what} {WITHOUT_PICTURES}", "warning"))
        return True
    failure.kept = FROM_NOW_ON
    return False


def _find_question(rows: Sequence[Row]) -> int:
    return max((place for place, row in enumerate(rows) if begins_exchange(row)), default=len(rows))


def _leave_out_of(rows: Sequence[Row], concern: Concern) -> Sequence[Row]:
    """The rows without what was refused, as far as the failure is about something in them."""
    question = _find_question(rows)
    if concern is Concern.PICTURE:
        # Those since the last question; when it has none, all: they are of a time when another model answered.
        first = question if any(map(_find_images, rows[question:])) else 0
        return [
            *rows[:first],
            *(
                _replace_content(row, as_words(find_parts(row.message["content"]) or [])) if _find_images(row) else row
                for row in rows[first:]
            ),
        ]
    if concern is Concern.TEXT:
        # Everything that somebody said since the last question: which words of it were refused, nobody tells.
        return [
            *rows[:question],
            *(
                _replace_content(row, "" if row.message.get("tool_calls") else NOTE)
                if is_question(row) or row.message["role"] != "user"
                else row
                for row in rows[question:]
            ),
        ]
    return rows


def _find_images(row: Row) -> list[Any]:
    return list(filter(is_image, find_parts(row.message.get("content")) or ()))


def _replace_content(row: Row, words: str) -> Row:
    images = _find_images(row)
    kept = {LEFT_OUT: images} if images and row.message["role"] == "user" else {}
    return Row({**without_own_data(row.message), "content": words, **kept}, shown_text(row))
