"""A transcript as people see it: entries for the page, exchanges for clients that bring their own history. Pure."""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from hermes_base.inbound import ANSWER, FileRef, OutboxRow, Outgoing
from hermes_base.inbound import FILE as FILE_ROW
from hermes_base.inbound import NOTE as NOTE_ROW
from hermes_base.query_values import ASSISTANT, FILE, NOTE, TOOL, USER, PastExchange, TimelineEntry
from hermes_base.text.tool_views import cut_parts, read_object, show_call, view_call, view_result
from hermes_base.turn.indirect import unwrap
from hermes_base.turn.journal import COMPACTED, Row, is_excuse, is_question, read_early_end, shown_text
from hermes_state.store import PagedRow

RESULT_CHARS = 4_000  # of a tool's result; the whole stands in the transcript
DETAIL_CHARS = 4_000
#: How a file stands in the text of a message (`gateway.core.bursts`).
_FILE_LINE = re.compile(r"\[(image|audio|file) ([^\n]*): (/[^\n]*)\]")
_INTERRUPTED = re.compile(r"\[interrupted: ([^\n]*)\]\Z")


# --- entries


def list_entries(rows: Sequence[PagedRow]) -> list[TimelineEntry]:
    """The rows as entries: a call of a tool and what came back are one."""
    results = {str(paged.row.message.get("tool_call_id")): paged for paged in rows if _role(paged.row) == "tool"}
    return [entry for paged in rows for entry in _describe(paged, results)]


def _describe(paged: PagedRow, results: Mapping[str, PagedRow]) -> Iterator[TimelineEntry]:
    row, role = paged.row, _role(paged.row)
    name = f"m{row.position}"
    if role == "user" and is_question(row):
        text, files = split_files(shown_text(row))
        yield _of_turn(paged, TimelineEntry(name, USER, text, paged.created, row.position, files=files))
    elif role == "assistant":
        yield from _describe_answer(name, paged)
        for number, call in enumerate(row.message.get("tool_calls") or ()):
            yield _of_turn(paged, _describe_call(f"{name}.{number}", paged, call, results.get(str(call.get("id")))))


def _of_turn(paged: PagedRow, entry: TimelineEntry) -> TimelineEntry:
    return replace(entry, turn=paged.turn, place=paged.place)


def _describe_answer(name: str, paged: PagedRow) -> Iterator[TimelineEntry]:
    row = paged.row
    text = shown_text(row)
    stopped = _INTERRUPTED.search(str(row.message.get("content") or ""))
    reasoning = row.message.get("reasoning")
    reasoning = reasoning if isinstance(reasoning, str) else ""
    if text.strip() or reasoning.strip():
        detail = stopped[1] if stopped else read_early_end(row)
        level = "warning" if detail else "error" if is_excuse(row) else "info"
        text = text.removesuffix(stopped[0]).rstrip() if stopped else text
        entry = TimelineEntry(name, ASSISTANT, text, paged.created, row.position, level=level, detail=detail)
        yield _of_turn(paged, replace(entry, reasoning=reasoning, model=str(row.message.get("by") or "")))


def _describe_call(name: str, paged: PagedRow, call: Mapping[str, Any], result: PagedRow | None) -> TimelineEntry:
    function = call.get("function") or {}
    called, given = str(function.get("name") or ""), read_object(str(function.get("arguments") or "")) or {}
    tool, args = unwrap(called, given)
    said = shown_text(result.row) if result else ""
    came = cut_parts(view_result(tool, said), RESULT_CHARS) if result else ()
    return TimelineEntry(
        name,
        TOOL,
        shorten(said, RESULT_CHARS),
        paged.created,
        paged.row.position,
        name=tool,
        detail=shorten(show_call(tool, args), DETAIL_CHARS),
        ok=None if result is None else not said.lstrip().startswith('{"error"'),
        parts=(*cut_parts(view_call(tool, args), DETAIL_CHARS), *came),
    )


def list_notes(rows: Iterable[OutboxRow]) -> list[TimelineEntry]:
    """What Hermes said that stands in no transcript: notes, files, and why there was no answer."""
    return [entry for row in rows if (entry := describe_row(row.id, row.outgoing, row.created)) is not None]


def describe_row(row: int, outgoing: Outgoing, at: float) -> TimelineEntry | None:
    name = f"o{row}"
    if outgoing.kind == FILE_ROW and outgoing.file is not None:
        return TimelineEntry(name, FILE, outgoing.text, at, files=(outgoing.file,))
    unwritten = outgoing.kind == ANSWER and not outgoing.turn
    if outgoing.kind == NOTE_ROW or unwritten:
        return TimelineEntry(name, NOTE, outgoing.text, at, level=outgoing.level)
    return None


def merge(entries: Sequence[TimelineEntry], notes: Sequence[TimelineEntry]) -> tuple[TimelineEntry, ...]:
    """Both by time; of one moment the transcript first. The order within each stays."""
    merged = sorted(
        [
            *((entry.at, 0, n, entry) for n, entry in enumerate(entries)),
            *((note.at, 1, n, note) for n, note in enumerate(notes)),
        ],
        key=lambda item: item[:3],
    )
    return tuple(entry for *_, entry in merged)


def split_files(text: str) -> tuple[str, tuple[FileRef, ...]]:
    """The text without the lines that name its files, and the files."""
    lines = text.split("\n")
    files: list[FileRef] = []
    while lines and (named := _FILE_LINE.fullmatch(lines[-1])):
        kind, name, path = named.groups()
        files.insert(0, FileRef(path, name, kind))
        lines.pop()
    return "\n".join(lines), tuple(files)


def shorten(text: str, limit: int) -> str:
    return text if len(text) <= limit else text[: limit - 1] + "…"


def _role(row: Row) -> str:
    return str(row.message.get("role") or "")


# --- exchanges


def list_exchanges(rows: Iterable[Row]) -> list[PastExchange]:
    """Questions, each with all that was said to it, as a client saw it."""
    found: list[tuple[str, list[str]]] = []
    for row in rows:
        if _role(row) == "user" and is_question(row):
            found.append((split_files(shown_text(row))[0], []))
        elif _role(row) == "assistant" and found and shown_text(row).strip() and not row.message.get(COMPACTED):
            found[-1][1].append(shown_text(row).strip())
    return [PastExchange(asked, "\n\n".join(answers)) for asked, answers in found]


def same_talk(one: Sequence[PastExchange], other: Sequence[PastExchange]) -> bool:
    """Whether two histories say the same; white space does not count, since clients tidy it."""
    return len(one) == len(other) and all(
        squeeze(left.asked) == squeeze(right.asked) and squeeze(left.answered) == squeeze(right.answered)
        for left, right in zip(one, other, strict=True)
    )


def is_shortened(standing: Iterable[Row]) -> bool:
    """Whether an engine put words of its own in the place of a part of the talk."""
    return any(row.message.get(COMPACTED) for row in standing)


def may_go_on(standing: Sequence[PastExchange], written: Iterable[PastExchange], told: Sequence[PastExchange]) -> bool:
    """Whether a history is that of a conversation that was made shorter: it ends as that one does, all of it was said
    there in this order, and it asks all that is still asked there. Of answers before the last one parts may be gone."""
    if not standing or not same_talk(standing[-1:], told[-1:]):
        return False
    asked = (squeeze(one.asked) for one in told)
    said = iter(written)
    return all(squeeze(one.asked) in asked for one in standing) and all(
        any(same_talk([one], [other]) for other in said) for one in told
    )


def squeeze(text: str) -> str:
    return " ".join(text.split())
