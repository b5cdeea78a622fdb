"""Bytes to text and back without loss: the encoding, the mark at the start and the line ends of a file are kept."""

import codecs
import re
from collections import Counter
from dataclasses import dataclass

from hermes_base.errors import ToolFailure

_SNIFF_BYTES = 8192
_CONTROL = re.compile(rb"[\x00-\x07\x0e-\x1a\x1c-\x1f\x7f]")  # what no text in an 8-bit encoding holds
_LINE_END = re.compile(r"\r\n|\n")
#: Marks at the start of a file and what they announce; the UTF-32 mark begins like that of UTF-16.
_MARKS = (
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF32_LE, ""),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)


@dataclass(frozen=True, slots=True)
class FileText:
    """The text of a file, line ends as they are, and how it is written."""

    text: str
    encoding: str = "utf-8"
    mark: bytes = b""

    def encode(self, text: str, path: str) -> bytes:
        """Another text in the way of this file."""
        try:
            return self.mark + text.encode(self.encoding)
        except UnicodeEncodeError as problem:
            bad = text[problem.start : problem.end][:20]
            raise ToolFailure(
                f"{path} is written in {self.encoding}, which has no place for {bad!r}.",
                fix="Use other characters, or convert the file to UTF-8 first.",
            ) from problem


def decode(data: bytes) -> FileText | None:
    """The text of a file's bytes, or None when they are no text."""
    for mark, encoding in _MARKS:
        if data.startswith(mark):
            try:
                return FileText(data[len(mark) :].decode(encoding), encoding, mark) if encoding else None
            except UnicodeDecodeError:
                return None
    if b"\0" in data[:_SNIFF_BYTES]:
        return None
    try:
        return FileText(data.decode("utf-8"))
    except UnicodeDecodeError:
        return None if _CONTROL.search(data) else FileText(data.decode("latin-1"), "latin-1")


def find_line_end(text: str) -> str:
    """The line end that most lines of a text have."""
    counts = Counter(_LINE_END.findall(text))
    return "\r\n" if counts["\r\n"] > counts["\n"] else "\n"


def with_line_ends(text: str, line_end: str) -> str:
    return _LINE_END.sub(lambda _: line_end, text)


def printable(path: str) -> str:
    """A path that may hold bytes which are no UTF-8, as text that can be sent."""
    return path.encode("utf-8", "surrogateescape").decode("utf-8", "replace")
