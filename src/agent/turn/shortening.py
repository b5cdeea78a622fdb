"""A conversation that is too long for its window: texts are cut, the least needed first, until it fits. Pure.

Nothing is lost by it: every cut names the row of the session that is kept whole, and people are shown the whole text.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from agent.context_compressor import SUMMARY_MARK, is_request, is_summary
from agent.formats.reply import without_own_data
from agent.model_metadata import rough_bytes
from hermes_base.journal import Row, shown_text, text_of

KEPT_REQUESTS = 3
LEAST_KEPT = 400  # characters of a text that is cut
#: In which order texts are cut. The rank of a row is the first of these that holds for it.
OLD_RESULT, RESULT, ANSWER, OLD_REQUEST, REQUEST = range(5)


def fit_text(text: str, limit: int, where: str) -> str:
    """The text, or two thirds of the room for its beginning and a third for its end; the same input, the same cut."""
    size = len(text.encode("utf-8", "replace"))
    if size <= limit:
        return text
    # How many characters fit into so many bytes, roughly: scripts differ by a factor of four.
    room = max(LEAST_KEPT, int(limit * (len(text) / size)))
    head, tail = room * 2 // 3, room // 3
    left_out = len(text) - head - tail
    return f"{text[:head]}\n[… {left_out:,} characters are left out here; the whole is kept: {where} …]\n{text[-tail:]}"


def shorten_rows(rows: Sequence[Row], room: int, session: str) -> list[Row]:
    """Rows that take at most `room` bytes together, as far as there are texts to cut and older rows to leave out.

    The newest request and the round that works on it stay; `session` is where all of them are kept whole.
    """
    shorter, size = list(rows), _size_of(rows)
    requests = [place for place, row in enumerate(rows) if _is_request(row)]
    newest = requests[-1] if requests else len(rows)
    by_role = {"tool": (OLD_RESULT, RESULT), "assistant": (ANSWER, ANSWER)}
    ranks = [
        by_role.get(row.message["role"], (OLD_REQUEST, OLD_REQUEST))[place > newest] for place, row in enumerate(rows)
    ]
    for place in requests[-KEPT_REQUESTS:]:
        ranks[place] = REQUEST
    for rank in range(REQUEST + 1):
        limit = room // 2
        while size > room and limit >= LEAST_KEPT // 2:
            shorter = [
                _cut(row, max(LEAST_KEPT, limit), session) if ranks[place] <= rank else row
                for place, row in enumerate(rows)
            ]
            size, limit = _size_of(shorter), limit // 2
    return shorter if size <= room else _leave_out_oldest(shorter, room, session)


def find_newest_request(rows: Sequence[Row]) -> int | None:
    """The place of what a person said last."""
    return next((place for place in reversed(range(len(rows))) if _is_request(rows[place])), None)


def cuts_request(before: Sequence[Row], after: Sequence[Row]) -> bool:
    """Whether one of the last messages of a person is not sent as it was."""
    kept = {text_of(row.message) for row in after}
    said = [text_of(row.message) for row in before if _is_request(row)]
    return any(text not in kept for text in said[-KEPT_REQUESTS:])


def _is_request(row: Row) -> bool:
    return row.shown != "" and is_request(row.message)


def _size_of(rows: Sequence[Row]) -> int:
    return sum(rough_bytes(row.message) for row in rows)


def _cut(row: Row, limit: int, session: str) -> Row:
    """The row with its text cut; the same row when there is nothing to cut."""
    where = f"{session}, message {row.position}" if row.position >= 0 else session
    content = row.message.get("content")
    cut: Any = content
    if isinstance(content, str):
        cut = fit_text(content, limit, where)
    elif isinstance(content, list):
        cut = [
            {**part, "text": fit_text(part["text"], limit, where)}
            if isinstance(part, Mapping) and isinstance(part.get("text"), str)
            else part
            for part in content
        ]
    if cut == content:
        return row
    return Row({**without_own_data(row.message), "content": cut}, shown_text(row), inbox=row.inbox)


def _leave_out_oldest(rows: Sequence[Row], room: int, session: str) -> list[Row]:
    """Without the oldest messages, calls together with their results, and with a word in their place."""
    stays = {find_newest_request(rows), len(rows) - 1}
    size = _size_of(rows) + rough_bytes(_tell_gap(len(rows), session).message)
    gone: set[int] = set()
    starts = [place for place, row in enumerate(rows) if row.message["role"] != "tool" or place == 0]
    for group in map(range, starts, [*starts[1:], len(rows)]):
        if size <= room:
            break
        if stays.isdisjoint(group) and not is_summary(rows[group[0]].message):
            size -= _size_of(rows[group.start : group.stop])
            gone.update(group)
    left = [row for place, row in enumerate(rows) if place not in gone]
    if not gone:
        return left
    first = next((place for place, row in enumerate(left) if not is_summary(row.message)), len(left))
    return [*left[:first], _tell_gap(len(gone), session), *left[first:]]


def _tell_gap(count: int, session: str) -> Row:
    text = f"{SUMMARY_MARK}\n\n{count} earlier messages are left out here; they are kept whole: {session}."
    return Row({"role": "user", "content": text}, "")
