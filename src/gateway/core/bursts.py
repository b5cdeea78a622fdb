"""Which of the waiting messages make one turn, and the text that the model reads of them. Pure."""

import re
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from itertools import takewhile

from gateway.core.route import ConversationView, is_command
from gateway.core.text.lengths import measure
from gateway.platforms.platform_list import spec_of
from hermes_base.inbound import NOTICE, FileRef, Inbound
from hermes_base.text.foreign import BACKGROUND, PROGRAM, UPLOADED
from hermes_state.turns import Waiting

MAX_MESSAGES = 20
MAX_BYTES = 32 * 1024  # of text
SPLIT_SECONDS = 1.0  # the next piece of a text that a client has cut comes in this time
MAX_QUOTE = 1_000  # characters
_NAME_CHARS = 64
_DOTS = "·•‧∙⋅・･"
_BLANK = r"\s\u200b-\u200f\u202a-\u202e\u2060-\u2069\ufeff\x1c-\x1f"
#: A bracket with all the blanks before it. Each run of blanks is read once, however many there are.
_OPENING = re.compile(rf"(?:^|(?<=[^{_BLANK}]))([{_BLANK}]*+)[\[［【]")
_BREAK = re.compile(r"[\r\v\f\x1c-\x1e\x85\u2028\u2029]")


@dataclass(frozen=True, slots=True)
class Item:
    """A stored message that is not dealt with: for a turn, or a command."""

    row: Waiting
    inbound: Inbound
    view: ConversationView  # what the store knows of sender and place; without the state of the lane
    replaces: tuple[int, ...] = ()  # older revisions of it that wait
    skip: bool = False  # a plugin said that it is not for us
    notes: tuple[str, ...] = ()  # what else the model reads of it, behind its files
    foreign: tuple[str, ...] = ()  # what in it is not its sender's own (G9), beside files
    # Asked for each message that comes while this one waits:
    is_command: bool = field(init=False)
    begun: bool = field(init=False)  # a turn was begun for it and never ended
    alone: bool = field(init=False)  # it never shares a turn: words of our own, and what is no turn at all

    def __post_init__(self) -> None:
        object.__setattr__(self, "is_command", is_command(self.inbound))
        object.__setattr__(self, "begun", self.row.attempts > 0 or self.row.taken)
        object.__setattr__(self, "alone", self.inbound.origin == NOTICE or self.is_command)


@dataclass(frozen=True, slots=True)
class Windows:
    """How close messages of one sender have to come to be one turn: facts of their platform."""

    burst: float = 0.0  # any two
    album: float = 0.0  # two of one album
    split_length: int = 0  # its clients cut a longer text; 0: they do not
    unit: str = "chars"

    def is_cut(self, text: str) -> bool:
        """Whether the text may go on in another message: it is as long as one gets. Clients like to cut between words,
        and what stands there is lost, so a little less counts as well."""
        return bool(self.split_length) and measure(text, self.unit) > self.split_length - self.split_length // 20

    def measure_wait(self, last: Item) -> float:
        """For how long after a message another piece of it may come; 0: it is whole by itself."""
        return max(
            self.album if last.inbound.album else 0.0,
            SPLIT_SECONDS if self.is_cut(last.inbound.text) else 0.0,
        )

    def are_pieces(self, before: Item, after: Item) -> bool:
        """Whether two messages are one that its platform, or a client of it, has cut: of one album, or of one text."""
        if before.alone or after.alone or after.begun or not _is_one_sender(before, after):
            return False
        one, other, gap = before.inbound, after.inbound, after.row.accepted - before.row.accepted
        if one.album and one.album == other.album:
            # They were sent at once, by the platform's clock; a line that failed in between may have brought them late.
            is_close = bool(one.received and other.received) and abs(other.received - one.received) <= self.album
            return is_close or gap <= self.album
        return gap <= SPLIT_SECONDS and bool(other.text) and not other.files and self.is_cut(one.text)


def find_windows(item: Item) -> Windows:
    """Which messages are one turn, where this one was said."""
    spec = spec_of(item.inbound.address.platform)
    return Windows(spec.burst_seconds, spec.album_seconds, spec.split_length, spec.length_unit)


def list_foreign(items: Sequence[Item]) -> tuple[str, ...]:
    """What of the messages of a turn is not their sender's own words (G9)."""
    found = {
        UPLOADED: any(item.inbound.files for item in items),
        BACKGROUND: any(item.inbound.origin == NOTICE for item in items),
        PROGRAM: any(spec_of(item.inbound.address.platform).is_program for item in items),
    }
    marked = (origin for item in items for origin in item.foreign)
    return tuple(dict.fromkeys((*(origin for origin, holds in found.items() if holds), *marked)))


def group(rows: Sequence[Item], windows: Windows) -> tuple[Item, ...]:
    """The first messages that make one turn together, in order; at least one, if there is any.

    Messages whose turn broke off belong together as they did before. Others do when one sender wrote them, each soon
    after the one before, up to a number and a size. Pieces of one message are never parted: not by number or size, nor
    by what others said in between, which waits its turn.
    """
    if not rows:
        return ()
    if rows[0].begun:
        return tuple(takewhile(lambda row: row.begun, rows))
    together, passed = [rows[0]], False
    for row in rows[1:]:
        last = together[-1]
        if windows.are_pieces(last, row) or (not passed and _follows(together, row, windows)):
            together.append(row)
        elif _is_one_sender(last, row) or row.begun or not windows.measure_wait(last):
            break
        else:
            passed = True
    return tuple(together)


def _follows(together: Sequence[Item], row: Item, windows: Windows) -> bool:
    """Whether the message belongs to a burst."""
    last = together[-1]
    if row.begun or row.alone or last.alone or row.row.accepted - last.row.accepted > windows.burst:
        return False
    size = sum(len(each.inbound.text.encode("utf-8", "surrogatepass")) for each in (*together, row))
    return _is_one_sender(last, row) and len(together) < MAX_MESSAGES and size <= MAX_BYTES


def _is_one_sender(one: Item, other: Item) -> bool:
    """Identity is platform and sender id; a name never is."""
    first, second = one.inbound, other.inbound
    return (first.address.platform, first.sender) == (second.address.platform, second.sender)


def hear_piece(item: Item, others: Sequence[Item], windows: Windows) -> Item:
    """A piece of a message that speaks to us does so, too: of an album or a long text only one names us."""
    inbound = item.inbound
    if inbound.mentioned or inbound.address.kind == "dm":
        return item
    near = [one for one in others if one.inbound.mentioned and one.row.seq != item.row.seq]
    pieces = (windows.are_pieces(one, item) or (inbound.album and windows.are_pieces(item, one)) for one in near)
    return replace(item, inbound=replace(inbound, mentioned=True)) if any(pieces) else item


def next_turn(rows: Sequence[Item], windows: Windows, now: float) -> tuple[tuple[Item, ...], float]:
    """The messages of the next turn, and the seconds until no other can join them; the clock is that of `accepted`.
    What seems to come from the future came before the clock was set back: it waits for nothing."""
    first = group(rows, windows)
    last, pieces = first[-1], windows.measure_wait(first[-1])
    if first[0].begun or last.alone:
        return first, 0.0
    if pieces:  # what others say meanwhile makes nothing whole
        taken = {item.row.seq for item in first}
        is_whole = any(_is_one_sender(last, row) for row in rows if row.row.seq not in taken)
    else:
        is_whole = len(first) < len(rows) or len(first) >= MAX_MESSAGES
    window = max(windows.burst, pieces)
    left = 0.0 if is_whole else last.row.accepted + window - now
    return first, left if 0.0 < left <= window else 0.0


def text_of(messages: Sequence[Item], windows: Windows | None = None) -> str:
    """What the model reads: the texts in order with blank lines between, in a group with who said it. Pieces of one
    message are put together again."""
    whole: list[list[Item]] = []
    for message in messages:
        if whole and (windows or Windows()).are_pieces(whole[-1][-1], message):
            whole[-1].append(message)
        else:
            whole.append([message])
    return "\n\n".join(_describe(pieces, windows or Windows()) for pieces in whole)


def _describe(pieces: Sequence[Item], windows: Windows) -> str:
    first, is_whole = pieces[0], len(pieces) == 1
    said = first.inbound.text if is_whole else _join_texts([piece.inbound for piece in pieces], windows)
    inbound, is_group = first.inbound, first.inbound.address.kind != "dm" and first.inbound.origin != NOTICE
    said = _guard_text(said) if is_group else said
    said = f"In reply to:\n{_write_quote(inbound.quote)}\n\n{said}".rstrip() if inbound.quote.strip() else said
    if is_group:
        # Who speaks, in words of ours: the name is for eyes, role and id say who it is (G2). People choose their names,
        # so a name cannot hold what this is made of.
        name = _clean_name(inbound.sender_name)[:_NAME_CHARS].strip() or "no name"
        role = _clean_name(first.view.sender.role) or "nobody we know"
        who = f"{inbound.address.platform}:{_clean_name(inbound.sender)}"
        said = f"[{name} · {role} · {who}] {said}"
    facts = " ".join(inbound.facts.split())
    said = f"[about this chat: {facts}]\n{said}" if facts else said
    files = (_describe_file(file) for piece in pieces for file in piece.inbound.files)
    notes = (_guard_text(note) if is_group else note for piece in pieces for note in piece.notes)
    return "\n".join(part for part in (said, *files, *notes) if part)


def _describe_file(file: FileRef) -> str:
    length = f" ({file.seconds // 60}:{file.seconds % 60:02})" if file.seconds else ""
    return f"[{file.kind} {_clean_name(file.name)}{length}: {file.path}]"


def _join_texts(pieces: Sequence[Inbound], windows: Windows) -> str:
    """One text of what was cut: in the middle of a line if the piece is full, else where a client saw a gap."""
    joined, before = "", ""
    for text in (piece.text for piece in pieces if piece.text):
        is_full = windows.is_cut(before) and measure(before, windows.unit) >= windows.split_length
        gap = "" if not joined or is_full or joined[-1].isspace() else "\n"
        joined, before = f"{joined}{gap}{text}", text
    return joined


def _write_quote(quote: str) -> str:
    """What is replied to, with a mark before each line: none of them begins as a speaker's line does."""
    shown = quote if len(quote) <= MAX_QUOTE else f"{quote[:MAX_QUOTE]}…"
    return "\n".join(f"> {line}".rstrip() for line in shown.strip().splitlines())


def _clean_name(name: str) -> str:
    """On one line, without signs that are not seen or that turn the direction, and without marks of ours."""
    kept: list[str] = []
    for char in name:
        plain = unicodedata.normalize("NFKC", char)
        is_mark = unicodedata.category(char)[0] in "CZ" or char in _DOTS or any(mark in plain for mark in "[]:·")
        kept.append(" " if is_mark else char)
    return " ".join("".join(kept).split())


def _guard_text(text: str) -> str:
    """The text of a speaker, in which no line begins as one of another speaker does."""
    return "\n".join(map(_guard_line, text.split("\n")))


def _guard_line(line: str) -> str:
    """A speaker's line begins, for whoever looks at it, with a bracket that has a dot of ours behind it."""
    last_dot = max(map(line.rfind, _DOTS))
    if last_dot < 0:
        return line

    def open_softly(found: re.Match[str]) -> str:
        begins = found.start() == 0 or _BREAK.search(found[1])
        return f"{found[1]}(" if begins and found.end() <= last_dot else found[0]

    return _OPENING.sub(open_softly, line)
