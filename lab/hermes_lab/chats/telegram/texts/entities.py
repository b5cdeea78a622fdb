"""Parts of a text that mean something: found in plain text, checked where a client gives them, put into order."""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from hermes_lab.chats.telegram.api_values import ENTITIES, MOST_ENTITIES, Complain, bad

#: What a client may name itself; the others are found by the server.
_GIVEN = (
    "bold italic underline strikethrough spoiler blockquote expandable_blockquote code pre text_link text_mention "
    "custom_emoji"
)
GIVEN = frozenset(_GIVEN.split())
FOUND = frozenset({"mention", "hashtag", "cashtag", "bot_command", "url", "email", "phone_number"})
CODES = frozenset({"code", "pre"})
_PATTERNS = (
    ("bot_command", re.compile(r"(?<![\w/])/[A-Za-z0-9_]{1,64}(?:@[A-Za-z0-9_]{3,32})?(?![\w/])")),
    ("email", re.compile(r"(?<![\w.+-])[\w.+-]+@[\w-]+\.[\w.-]*\w")),
    ("mention", re.compile(r"(?<![\w@./])@[A-Za-z][A-Za-z0-9_]{2,31}\b")),
    (
        "url",
        re.compile(r"(?<![\w@.-])(?:https?://[^\s<>\"]+|(?:[a-z0-9-]+\.)+(?:com|org|net|io|dev)\b(?:/[^\s<>\"]*)?)"),
    ),
    ("hashtag", re.compile(r"(?<!\w)#\w*[^\W\d]\w*")),
)


@dataclass(frozen=True, slots=True)
class Entity:
    """Offset and length count UTF-16 units."""

    kind: str
    offset: int
    length: int
    more: Mapping[str, Any] = field(default_factory=dict, hash=False)

    @property
    def end(self) -> int:
        return self.offset + self.length

    def describe(self) -> dict[str, Any]:
        return {"type": self.kind, "offset": self.offset, "length": self.length, **self.more}


def units(text: str) -> int:
    """Length in UTF-16 units."""
    return len(text) + sum(char > "\uffff" for char in text)


def cut_units(text: str, start: int, end: int) -> str:
    return text.encode("utf-16-le", "surrogatepass")[2 * start : 2 * end].decode("utf-16-le", "replace")


def find_entities(text: str, taken: Sequence[Entity] = ()) -> list[Entity]:
    """What the server sees in a text by itself, outside of code and links."""
    closed = [entity for entity in taken if entity.kind in CODES or entity.kind.startswith("text_")]
    found: list[Entity] = []
    for kind, pattern in _PATTERNS:
        for match in pattern.finditer(text):
            made = Entity(kind, units(text[: match.start()]), units(match.group()))
            if not any(made.offset < other.end and other.offset < made.end for other in (*closed, *found)):
                found.append(made)
    return order_entities(found)


def order_entities(entities: Iterable[Entity]) -> list[Entity]:
    return sorted(entities, key=lambda entity: (entity.offset, -entity.length, entity.kind))


def settle(text: str, entities: Sequence[Entity]) -> tuple[str, list[Entity]]:
    """Text and entities as they are kept: nothing at the ends but what is seen, no entity without length, none inside
    of code."""
    right = text.rstrip()
    left = len(right) - len(right.lstrip())
    first = min((entity.offset for entity in entities), default=left)
    start = min(left, first)
    kept = right[start:]
    most = units(kept)
    moved = (_fit(entity, start, most) for entity in entities)
    whole = [entity for entity in moved if entity.length > 0]
    codes = [entity for entity in whole if entity.kind in CODES]
    free = [entity for entity in whole if not any(_is_inside(entity, code) for code in codes if code is not entity)]
    return kept, order_entities(set(free))


def _fit(entity: Entity, start: int, most: int) -> Entity:
    begin, end = max(entity.offset - start, 0), min(entity.end - start, most)
    return Entity(entity.kind, begin, end - begin, entity.more)


def _is_inside(entity: Entity, code: Entity) -> bool:
    return entity.offset >= code.offset and entity.end <= code.end and entity.kind != "pre"


def read_entities(rows: Sequence[Mapping[str, Any]], text: str, complain: Complain) -> list[Entity]:
    """Those that a client gives. What Telegram drops in silence is a complaint."""
    if len(rows) > MOST_ENTITIES:
        complain(ENTITIES, f"{len(rows)} entities; only {MOST_ENTITIES} are kept.")
    most, kept = units(text), []
    for row in rows[:MOST_ENTITIES]:
        kind, offset, length = row.get("type"), row.get("offset"), row.get("length")
        if not isinstance(kind, str) or not isinstance(offset, int) or not isinstance(length, int):
            raise bad("can't parse MessageEntity: fields type, offset and length are needed", ENTITIES)
        if kind not in GIVEN | FOUND:
            raise bad(f"can't parse MessageEntity: unsupported type {kind}", ENTITIES)
        if offset < 0 or length <= 0 or offset + length > most or _splits_pair(text, offset, offset + length):
            complain(ENTITIES, f"{kind} at {offset} of length {length} does not fit a text of {most} units.")
        elif kind in GIVEN:
            kept.append(Entity(kind, offset, length, {k: row[k] for k in ("url", "user", "language") if k in row}))
    return kept


def _splits_pair(text: str, *places: int) -> bool:
    """Whether one of these places is in the middle of a character."""
    data = text.encode("utf-16-le", "surrogatepass")
    return any(0xDC <= data[2 * place + 1] <= 0xDF for place in places if 2 * place + 1 < len(data))
