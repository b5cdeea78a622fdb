"""What an IMAP server says, read (RFC 9051 and 3501). Pure."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime

#: An atom, with what stands in brackets behind it: BODY[HEADER]<0>.
_TOKEN = re.compile(rb'[ ]*(?:(\()|(\))|"((?:[^"\\]|\\.)*)"|([^\s()"\[]+(?:\[[^\]]*\][^\s()]*)?))')
_LITERAL_END = re.compile(rb"~?\{([0-9]+)\+?\}$")
#: A code stands right behind the status; brackets further on are a server's own words.
_CODE = re.compile(r"(?:OK|NO|BAD|BYE|PREAUTH) +\[([A-Za-z0-9-]+)(?: ([^\]]*))?\]", re.IGNORECASE)
_MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")

ImapItem = bytes | list["ImapItem"]


@dataclass(frozen=True, slots=True)
class ImapAnswer:
    """One answer: pieces of lines, and between them what came as it is (literals)."""

    pieces: tuple[bytes, ...]

    @property
    def words(self) -> list[str]:
        """The first words: tag, then a status or a number and a kind."""
        return self.pieces[0].decode("latin-1").split(" ", 3)

    @property
    def text(self) -> str:
        return self.pieces[0].decode("utf-8", "replace").partition(" ")[2].strip()

    def is_untagged(self, kind: str) -> bool:
        """The kind is the first word, or the one behind a number: `* NO FETCH failed` brings no mail."""
        tag, first, second = [*self.words[:3], "", ""][:3]
        return tag == "*" and kind == (second if first.isdigit() else first).upper()

    @property
    def code(self) -> str:
        """The code in brackets that a status may have, such as UNAVAILABLE; empty: it has none."""
        found = _CODE.match(self.text)
        return found[1].upper() if found else ""

    def read_code(self, name: str) -> str | None:
        """What stands behind a code such as UIDVALIDITY; None: it is not there."""
        found = _CODE.match(self.text)
        return (found[2] or "") if found and found[1].upper() == name else None


@dataclass(frozen=True, slots=True)
class FetchedMail:
    """What was fetched of one mail; what was not asked for is empty."""

    uid: int
    size: int
    arrived: float  # time.time() at the server; 0: not told
    data: bytes


@dataclass(frozen=True, slots=True)
class OpenedBox:
    validity: int  # of its numbers: UIDVALIDITY
    next_uid: int


def find_literal(line: bytes) -> int | None:
    """How many bytes follow the line as they are; None: none do."""
    found = _LITERAL_END.search(line)
    return int(found[1]) if found else None


def drop_literal(line: bytes) -> bytes:
    return _LITERAL_END.sub(b"", line)


def read_items(pieces: Sequence[bytes]) -> list[ImapItem]:
    """Lists in lists, of what stands in an answer. ValueError for what is none."""
    stack: list[list[ImapItem]] = [[]]
    for number, piece in enumerate(pieces):
        if number % 2:
            stack[-1].append(piece)
            continue
        at = 0
        while found := _TOKEN.match(piece, at):
            at = found.end()
            opens, closes, quoted, atom = found.groups()
            if opens:
                stack[-1].append([])
                stack.append(stack[-1][-1])  # type: ignore[arg-type]  # the list that was just put there
            elif closes:
                stack.pop()
            else:
                stack[-1].append(atom if quoted is None else re.sub(rb"\\(.)", rb"\1", quoted))
            if not stack:
                raise ValueError("a bracket is closed that was not opened")
        if piece[at:].strip():
            raise ValueError("what the server says cannot be read")
    if len(stack) != 1:
        raise ValueError("a bracket is not closed")
    return stack[0]


def read_fetched(answer: ImapAnswer) -> FetchedMail | None:
    """A FETCH answer that holds what was asked for; None: it is about flags alone. ValueError: it is not to be read, or
    the server has nothing to hand out."""
    *_, items = read_items(answer.pieces)
    if not isinstance(items, list):
        return None
    facts: Mapping[str, ImapItem] = {
        name.decode("latin-1").upper().partition("[")[0]: value
        for name, value in zip(items[::2], items[1::2], strict=False)
        if isinstance(name, bytes)
    }
    uid, body = facts.get("UID"), facts.get("BODY")
    if not isinstance(uid, bytes) or not isinstance(body, bytes):
        return None
    if body == b"NIL":
        raise ValueError("a mail without its text")
    size, arrived = facts.get("RFC822.SIZE"), facts.get("INTERNALDATE")
    return FetchedMail(
        int(uid),
        int(size) if isinstance(size, bytes) else 0,
        read_date(arrived if isinstance(arrived, bytes) else b""),
        body,
    )


def read_numbers(answers: Sequence[ImapAnswer]) -> list[int]:
    """The numbers of SEARCH answers, in order."""
    words = (answer.pieces[0].split()[2:] for answer in answers if answer.is_untagged("SEARCH"))
    return sorted({int(word) for found in words for word in found if word.isdigit()})


def read_fullness(answers: Sequence[ImapAnswer]) -> float:
    """How much of its room a mailbox has used, up to 1; 0: the server does not say, or there is no limit (RFC 9208)."""
    used = [0.0]
    for answer in answers:
        *_, items = read_items(answer.pieces) if answer.words[1:2] == ["QUOTA"] else ((),)
        numbers = [int(item) for item in items if isinstance(item, bytes) and item.isdigit()]
        used += [now / most for now, most in zip(numbers[::2], numbers[1::2], strict=False) if most]
    return min(max(used), 1.0)


def read_date(text: bytes) -> float:
    try:
        return datetime.strptime(text.decode("ascii").strip(), "%d-%b-%Y %H:%M:%S %z").timestamp()
    except ValueError:
        return 0.0


def write_date(day: date) -> str:
    return f"{day.day}-{_MONTHS[day.month - 1]}-{day.year}"


def quote(text: str) -> str:
    """A text as an IMAP string; ValueError for one that needs another form."""
    if not text.isascii() or any(char in text for char in "\r\n\0"):
        raise ValueError("this is no quoted string")
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'
