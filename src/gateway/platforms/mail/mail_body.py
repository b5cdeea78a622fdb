"""The text and the files of a mail, from its bytes. Pure; a long mail takes its time: no work for the event loop."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from email import policy
from email.message import Message
from email.parser import BytesParser
from html.parser import HTMLParser

from gateway.platforms.mail.sender_proof import decode_words

MOST_DEPTH, MOST_PARTS = 20, 200
#: What a mail may cost: each line is held in memory, and compared with each border between parts. A mail of 36 MB that
#: people send has half a million lines and a few borders.
MOST_LINES, MOST_COMPARED = 1_000_000, 20_000_000
_BORDER = re.compile(rb"boundary", re.IGNORECASE)
UNREADABLE = (
    "[The mail is put together from so many pieces that it is not read here. Please send it in a simpler form.]"
)
MOST_TEXT = 500_000  # characters
ENCRYPTED = "[The mail is encrypted, and cannot be read here.]"
_SECRET_TYPES = frozenset({"multipart/encrypted", "application/pkcs7-mime", "application/x-pkcs7-mime"})
_SIGNATURES = frozenset({"application/pgp-signature", "application/pkcs7-signature", "application/x-pkcs7-signature"})
_KINDS = {"image": "image", "audio": "audio"}
_ENDINGS = {
    "image/png": ".png",
    "image/jpeg": ".jpg",
    "image/gif": ".gif",
    "text/calendar": ".ics",
    "text/html": ".html",
}


@dataclass(frozen=True, slots=True)
class MailFile:
    name: str
    kind: str  # image, audio, file
    data: bytes


@dataclass(frozen=True, slots=True)
class MailBody:
    text: str
    files: tuple[MailFile, ...]


def read_body(raw: bytes) -> MailBody:
    """Text for people: the plain one where there are two forms of it. Files in the order in which they stand."""
    if not _is_tame(raw):
        return MailBody(UNREADABLE, ())
    texts: list[str] = []
    files: list[MailFile] = []
    parsed = BytesParser(policy=policy.compat32).parsebytes(raw)
    for number, leaf in enumerate(_list_leaves(parsed, 0)):
        if number >= MOST_PARTS:
            break
        if isinstance(leaf, str):
            texts.append(leaf)
        elif _is_text(leaf):
            texts.append(_read_text(leaf))
        elif leaf.get_content_type() not in _SIGNATURES:
            files.append(_read_file(leaf, len(files) + 1))
    text = "\n\n".join(filter(None, (text.strip("\n") for text in texts)))
    return MailBody(text[:MOST_TEXT], tuple(files))


def _is_tame(raw: bytes) -> bool:
    """Whether it can be taken apart in seconds: anybody may have written it."""
    lines = raw.count(b"\n")
    borders = sum(1 for _ in _BORDER.finditer(raw))
    return lines <= MOST_LINES and lines * max(1, borders) <= MOST_COMPARED


def _list_leaves(part: "Message[str, str]", depth: int) -> Iterator["Message[str, str] | str"]:
    """Parts that are no containers, the better of two forms only; a text is a word of ours."""
    kind = part.get_content_type()
    if kind in _SECRET_TYPES and "signed-data" not in str(part.get_param("smime-type", "")):
        yield ENCRYPTED
    children = part.get_payload() if part.is_multipart() else None
    if not isinstance(children, list) or kind == "message/rfc822" or depth > MOST_DEPTH:
        yield part
        return
    kept = [child for child in children if isinstance(child, Message)]
    if kind == "multipart/alternative":
        kept = _choose(kept)
    for child in kept:
        yield from _list_leaves(child, depth + 1)


def _choose(forms: list["Message[str, str]"]) -> list["Message[str, str]"]:
    """Of several forms of one text the plain one, unless it is empty; with it whatever is no text at all."""
    plain = [form for form in forms if form.get_content_type() == "text/plain" and _read_text(form).strip()]
    rich = [form for form in forms if form.get_content_type() != "text/plain"]
    if not plain:
        return rich[-1:] or forms[-1:]
    beside = [leaf for form in rich for leaf in form.walk() if not leaf.is_multipart()]
    kinds = ((leaf, leaf.get_content_type()) for leaf in beside)
    return [plain[0], *(leaf for leaf, kind in kinds if kind == "text/calendar" or not kind.startswith("text/"))]


def _is_text(part: "Message[str, str]") -> bool:
    is_shown = part.get_content_disposition() != "attachment" and not _read_name(part)
    return part.get_content_type() in ("text/plain", "text/html") and is_shown


def _read_text(part: "Message[str, str]") -> str:
    text = decode_bytes(_read_bytes(part), str(part.get_content_charset() or ""))
    text = text.replace("\r\n", "\n").replace("\r", "\n").replace("\0", "")
    if part.get_content_type() == "text/html":
        return read_html(text)
    if str(part.get_param("format", "")).lower() == "flowed":
        return join_flowed(text, drops_space=str(part.get_param("delsp", "")).lower() == "yes")
    return text


def _read_bytes(part: "Message[str, str]") -> bytes:
    if part.get_content_type() == "message/rfc822":
        inner = _find_inner(part)
        return inner.as_bytes() if inner is not None else b""
    found = part.get_payload(decode=True)
    return found if isinstance(found, bytes) else b""


def _find_inner(part: "Message[str, str]") -> "Message[str, str] | None":
    """The mail that is attached to a mail."""
    inner = part.get_payload()
    first = inner[0] if isinstance(inner, list) and inner else None
    return first if isinstance(first, Message) else None


def decode_bytes(data: bytes, charset: str) -> str:
    """What a mail calls its signs need not be known, nor true."""
    for name in (charset, "utf-8"):
        try:
            return data.decode(name or "ascii")
        except (LookupError, ValueError):
            continue
    return data.decode("latin-1")


def _read_file(part: "Message[str, str]", number: int) -> MailFile:
    kind = part.get_content_type()
    name = _read_name(part)
    if not name and kind == "message/rfc822":
        inner = _find_inner(part)
        about = decode_words(str(inner.get("Subject", ""))) if inner is not None else ""
        name = f"{about.strip()[:80] or 'mail'}.eml"
    name = name or f"file-{number}{_ENDINGS.get(kind, '')}"
    return MailFile(name, _KINDS.get(part.get_content_maintype(), "file"), _read_bytes(part))


def _read_name(part: "Message[str, str]") -> str:
    try:
        return " ".join(decode_words(part.get_filename() or "").split())[:200]
    except (LookupError, ValueError):  # of a name in signs that nobody knows
        return "file"


def join_flowed(text: str, *, drops_space: bool) -> str:
    """Lines that end with a space go on in the next one of the same depth (RFC 3676)."""
    joined: list[list[str]] = []
    depth_before, goes_on = -1, False
    for line in text.split("\n"):
        depth = len(line) - len(line.lstrip(">"))
        body = line[depth:].removeprefix(" ")
        flows = body.endswith(" ") and body != "-- "
        body = body[:-1] if flows and drops_space else body
        if goes_on and depth == depth_before and body != "-- ":
            joined[-1].append(body)
        else:
            joined.append([f"{'>' * depth} {body}" if depth else body])
        depth_before, goes_on = depth, flows
    whole = map("".join, joined)
    return "\n".join(line.rstrip(" ") if line != "-- " else line for line in whole)


# --- HTML

MOST_HTML = 1_000_000  # characters
_LONGEST_TAG, _DEEPEST_QUOTE = 4_000, 8
_HIDDEN_TAGS = frozenset({"head", "style", "script", "title", "template", "noscript", "svg", "math"})
_BLOCKS = frozenset({"p", "div", "ul", "ol", "table", "tr", "h1", "h2", "h3", "h4", "h5", "h6", "pre", "hr", "section"})
_SPACED = frozenset({"p", "ul", "ol", "table", "h1", "h2", "h3", "h4", "h5", "h6", "pre"})
_EMPTY_TAGS = frozenset({"br", "hr", "img", "input", "meta", "link", "area", "base", "col", "wbr", "source"})
_INVISIBLE = re.compile(r"display\s*:\s*none|visibility\s*:\s*hidden|font-size\s*:\s*0(?![.\d])", re.IGNORECASE)
_LONE_SIGN = re.compile(r"<(?=[^<>]*(?:<|\Z))")
_LONG_TAG = re.compile(rf"<[^<>]{{{_LONGEST_TAG},}}>")


def read_html(source: str) -> str:
    """The text that people would see of it; quotes with a sign before each line."""
    reader = _HtmlReader()
    reader.feed(_tidy(source[:MOST_HTML]))
    reader.close()
    return reader.finish()


def _tidy(source: str) -> str:
    """Without comments, and without what would keep the parser busy for minutes: tags that are never closed or have no
    end."""
    bits, at = [], 0
    while (begin := source.find("<!--", at)) >= 0:
        end = source.find("-->", begin + 4)
        bits.append(source[at:begin])
        at = end + 3 if end >= 0 else len(source)
    return _LONG_TAG.sub("", _LONE_SIGN.sub("&lt;", "".join([*bits, source[at:]])))


class _HtmlReader(HTMLParser):
    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self._lines: list[str] = []
        self._line: list[str] = []  # the one that grows
        self._quotes = 0
        self._hidden = ""  # the tag that nobody sees, and how many of its kind are open
        self._hidden_depth = 0
        self._pre = 0
        self._link: tuple[str, int] | None = None  # where the open one leads, and its place in its line
        self._items: list[int] = []  # of each open list: the next number; 0: it has none

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        facts = {name: value or "" for name, value in attrs}
        if self._hidden:
            self._hidden_depth += tag == self._hidden
        elif tag in _HIDDEN_TAGS or "hidden" in facts or _INVISIBLE.search(facts.get("style", "")):
            self._hidden, self._hidden_depth = ("", 0) if tag in _EMPTY_TAGS else (tag, 1)
        elif tag == "br":
            self._break()
        elif tag == "hr":
            self._begin_block(spaced=False)
            self._put("_____")
            self._break()
        elif tag == "img":
            self._put(facts.get("alt", ""))
        elif tag == "blockquote":
            self._begin_block(spaced=True)
            self._quotes += 1
        elif tag == "li":
            self._begin_item()
        elif tag in ("td", "th"):
            self._put(" ")
        elif tag in _BLOCKS:
            self._begin_block(spaced=tag in _SPACED)
            self._pre += tag == "pre"
            self._items += [int(tag == "ol")] if tag in ("ul", "ol") else []
        elif tag == "a":
            self._link = (facts.get("href", ""), len(self._line))  # there are none within others

    def handle_endtag(self, tag: str) -> None:
        if self._hidden:
            self._hidden_depth -= tag == self._hidden
            self._hidden = self._hidden if self._hidden_depth else ""
        elif tag == "blockquote" and self._quotes:
            self._begin_block(spaced=False)
            self._quotes -= 1
        elif tag in _BLOCKS:
            self._begin_block(spaced=tag in _SPACED)
            self._pre -= tag == "pre" and self._pre > 0
            if tag in ("ul", "ol") and self._items:
                self._items.pop()
        elif tag == "a" and self._link is not None:
            (url, at), self._link = self._link, None
            said = "".join(self._line[at:]).strip()
            is_said = url.rstrip("/") in (said, f"http://{said}", f"https://{said}")
            if url.startswith(("http://", "https://")) and not is_said:
                self._put(f" ({url})")

    def handle_data(self, data: str) -> None:
        if self._hidden:
            return
        if self._pre:
            first, *more = data.split("\n")
            self._line.append(first)
            for line in more:
                self._break()
                self._line.append(line)
        else:
            self._put(re.sub(r"[ \t\r\n\f]+", " ", data))

    def finish(self) -> str:
        self._break()
        text = "\n".join(line.replace("\xa0", " ").rstrip() for line in self._lines)
        return re.sub(r"\n{3,}", "\n\n", text).strip("\n")

    def _begin_item(self) -> None:
        self._begin_block(spaced=False)
        number = self._items[-1] if self._items else 0
        if number:
            self._items[-1] += 1
        depth = min(len(self._items), _DEEPEST_QUOTE) - 1
        self._line.append("  " * depth + (f"{number}. " if number else "- "))

    def _put(self, text: str) -> None:
        text = text if self._line else text.lstrip(" ")
        if text:
            self._line.append(text)

    def _break(self) -> None:
        """The line is whole."""
        self._lines.append("> " * min(self._quotes, _DEEPEST_QUOTE) + "".join(self._line))
        self._line = []

    def _begin_block(self, *, spaced: bool) -> None:
        if self._line:
            self._break()
        if spaced and self._lines and self._lines[-1].strip("> "):
            self._break()
