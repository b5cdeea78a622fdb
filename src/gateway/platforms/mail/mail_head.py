"""The fields at the head of a mail, read in the one way in which they are judged."""

import re
from collections.abc import Sequence
from functools import cached_property

from gateway.platforms.mail.sender_proof import decode_words

_FIELD = re.compile(r"([!-9;-~]+)[ \t]*:(.*)", re.DOTALL)
_HEAD_END = re.compile(rb"\r?\n\r?\n")
_ID = re.compile(r"<([^<>\s]{1,300})>")
_LONGEST_SUBJECT = 200
_LONGEST_FIELD = 2_000


class MailHead:
    """The fields of a mail, in order and as they are; `is_odd`: they are not as they have to be."""

    def __init__(self, raw: bytes) -> None:
        head = _HEAD_END.split(raw, 1)[0]
        lines, whole_lines = head.count(b"\n"), head.count(b"\r\n")
        text = head.decode("utf-8", "surrogateescape").replace("\r\n", "\n")
        self.is_odd = "\r" in text or "\0" in text or 0 < whole_lines < lines
        fields: list[tuple[str, list[str]]] = []
        for line in text.split("\n"):
            found = _FIELD.fullmatch(line)
            if line[:1] in (" ", "\t") and fields:
                fields[-1][1].append(line)
            elif found is not None:
                fields.append((found[1].lower(), [found[2]]))
            elif line:
                self.is_odd = True
        self._fields = [(name, "".join(lines)) for name, lines in fields]

    def every(self, name: str) -> Sequence[str]:
        """The values of all fields of this name, the topmost first."""
        return [value.strip(" \t") for known, value in self._fields if known == name]

    def names(self) -> Sequence[str]:
        return [name for name, _ in self._fields]

    @cached_property
    def subject(self) -> str:
        said = next(iter(self.every("subject")), "")[:_LONGEST_FIELD].encode("utf-8", "replace").decode()
        return " ".join(decode_words(said).split())[:_LONGEST_SUBJECT]

    @cached_property
    def references(self) -> list[str]:
        """The ids of the mails before it in its thread, the oldest first; the last is the one that it replies to."""
        before = [found for value in self.every("references") for found in _ID.findall(value)]
        parents = [found for value in self.every("in-reply-to") for found in _ID.findall(value)][:1]
        return list(dict.fromkeys([*(one for one in before if one not in parents), *parents]))

    @cached_property
    def message_id(self) -> str:
        """Without its brackets; empty: it has none that could be one."""
        values = self.every("message-id")
        found = _ID.fullmatch(values[0]) if len(values) == 1 else None
        return found[1] if found and found[1].isascii() else ""
