"""Which of the waiting messages make one turn, and the text that the model reads of them. Pure."""

import re
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise, takewhile

from gateway.core.route import ConversationView, is_command
from hermes_base.inbound import NOTICE, Inbound
from hermes_state.turns import Waiting

MAX_MESSAGES = 20
MAX_BYTES = 32 * 1024  # of text
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
    is_command: bool = field(init=False)  # asked for each message that comes while this one waits

    def __post_init__(self) -> None:
        object.__setattr__(self, "is_command", is_command(self.inbound))

    @property
    def begun(self) -> bool:
        """Whether a turn was begun for it and never ended."""
        return self.row.attempts > 0 or self.row.taken

    @property
    def alone(self) -> bool:
        """Whether it never shares a turn: words of our own, and what is no turn at all."""
        return self.inbound.origin == NOTICE or self.is_command


def group(rows: Sequence[Item], window: float) -> tuple[Item, ...]:
    """The first messages that make one turn together; at least one, if there is any.

    Messages whose turn broke off belong together as they did before. Others do when one sender wrote them, each within
    `window` seconds of the one before, up to a number and a size.
    """
    if not rows:
        return ()
    if rows[0].begun:
        return tuple(takewhile(lambda row: row.begun, rows))
    together = [rows[0]]
    for before, row in pairwise(rows[:MAX_MESSAGES]):
        if row.begun or row.alone or before.alone or row.row.accepted - before.row.accepted > window:
            break
        # Identity is platform and sender id; a name never is.
        one, other = before.inbound, row.inbound
        if (one.address.platform, one.sender) != (other.address.platform, other.sender):
            break
        if sum(len(each.inbound.text.encode("utf-8", "surrogatepass")) for each in (*together, row)) > MAX_BYTES:
            break
        together.append(row)
    return tuple(together)


def next_turn(rows: Sequence[Item], window: float, now: float) -> tuple[tuple[Item, ...], float]:
    """The messages of the next turn, and the seconds until no other can join them; the clock is that of `accepted`.
    What seems to come from the future came before the clock was set back: it waits for nothing."""
    first = group(rows, window)
    last = first[-1]
    is_whole = len(first) < len(rows) or len(first) >= MAX_MESSAGES or first[0].begun or last.alone
    left = 0.0 if is_whole else last.row.accepted + window - now
    return first, left if 0.0 < left <= window else 0.0


def text_of(messages: Sequence[Item]) -> str:
    """What the model reads: the texts in order with blank lines between, in a group with who said it."""
    return "\n\n".join(_describe(message) for message in messages)


def _describe(message: Item) -> str:
    inbound, said = message.inbound, message.inbound.text
    if inbound.address.kind != "dm" and inbound.origin != NOTICE:
        # Who speaks, in words of ours: the name is for eyes, role and id say who it is (G2). People choose their names,
        # so a name cannot hold what this is made of.
        name = _clean_name(inbound.sender_name)[:_NAME_CHARS].strip() or "no name"
        role = _clean_name(message.view.sender.role) or "nobody we know"
        who = f"{inbound.address.platform}:{_clean_name(inbound.sender)}"
        said = f"[{name} · {role} · {who}] {_guard_text(said)}"
    files = (f"[{file.kind} {_clean_name(file.name)}: {file.path}]" for file in inbound.files)
    return "\n".join(part for part in (said, *files) if part)


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
