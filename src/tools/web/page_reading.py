"""What the reading process does: one page in, its text out, within limits that it sets itself before it looks at it.

Whoever wrote the page may want to harm who reads it: so it is read where nothing lies about, with little memory and
time and no right to write files. What comes in is a line of JSON (`PageFacts`) and the bytes behind it; what goes out
is JSON (`PageText`).
"""

import codecs
import importlib
import io
import json
import re
import resource
import sys
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from typing import Any

CPU_SECONDS = 20
MEMORY_BYTES = 768 << 20
MOST_CHARS = 2_000_000  # of the text that is kept
_DEPTH = 4_000
_SNIFFED = 4_096
_GUESSED = 65_536
_META_CHARSET = re.compile(rb"<meta[^>]{0,200}?charset\s*=\s*[\"']?\s*([\w.:-]{1,40})", re.IGNORECASE)
_XML_CHARSET = re.compile(rb"^\s*<\?xml[^>]{0,100}?encoding\s*=\s*[\"']([\w.:-]{1,40})", re.IGNORECASE)
_BEGINS_HTML = re.compile(
    rb"^\s*(?:<!--.{0,500}?-->\s*)*<(?:!doctype\s+html|html|head|body)\b", re.IGNORECASE | re.DOTALL
)
_BYTE_MARKS = ((codecs.BOM_UTF8, "utf-8-sig"), (codecs.BOM_UTF16_LE, "utf-16"), (codecs.BOM_UTF16_BE, "utf-16"))
#: What pages call an encoding that is read as the larger one which browsers read it as.
_READ_AS: Mapping[str, str] = {
    **dict.fromkeys(("iso-8859-1", "latin-1", "latin1", "ascii", "us-ascii", "iso8859-1"), "cp1252"),
    **dict.fromkeys(("gb2312", "gbk", "x-gbk"), "gb18030"),
    **dict.fromkeys(("shift_jis", "shift-jis", "sjis", "x-sjis"), "cp932"),
    **dict.fromkeys(("euc-kr", "ks_c_5601-1987"), "cp949"),
}
HTML, PDF, TEXT, BINARY = "html", "pdf", "text", "binary"
_TYPES: Mapping[str, str] = {
    **dict.fromkeys(("text/html", "application/xhtml+xml"), HTML),
    **dict.fromkeys(("application/pdf", "application/x-pdf"), PDF),
    **dict.fromkeys(
        (
            *("application/json", "application/xml", "application/javascript", "application/ecmascript"),
            *("application/yaml", "application/x-yaml", "application/toml", "application/x-sh", "application/sql"),
            *("application/ld+json", "application/x-ndjson", "application/rtf", "application/graphql", "image/svg+xml"),
        ),
        TEXT,
    ),
}
#: Says nothing about what the bytes are.
_UNKNOWN_TYPES = frozenset(("", "application/octet-stream", "binary/octet-stream", "application/unknown"))


@dataclass(frozen=True, slots=True)
class PageFacts:
    url: str
    content_type: str = ""
    charset: str = ""  # as the header has it
    cut: bool = False  # there was more of it


@dataclass(frozen=True, slots=True)
class PageText:
    """The text of a page; `problem` says why there is none."""

    kind: str
    title: str = ""
    text: str = ""
    problem: str = ""
    note: str = ""


def main() -> None:
    """Run by `page_child.py`, in a process of its own."""
    _set_limits()
    first, _, body = sys.stdin.buffer.read().partition(b"\n")
    facts = PageFacts(**json.loads(first))
    try:
        page = read_page(facts, body)
    except MemoryError:
        page = PageText(find_kind(facts, body), problem="It needs more memory to be read than it gets.")
    sys.stdout.buffer.write(json.dumps(asdict(page)).encode())


def _set_limits() -> None:
    sys.setrecursionlimit(_DEPTH)
    for what, most in (
        (resource.RLIMIT_CPU, CPU_SECONDS),
        (resource.RLIMIT_AS, MEMORY_BYTES),
        (resource.RLIMIT_FSIZE, 0),
        (resource.RLIMIT_CORE, 0),
    ):
        resource.setrlimit(what, (most, most))


def read_page(facts: PageFacts, body: bytes) -> PageText:
    kind = find_kind(facts, body)
    if not body.strip():
        return PageText(kind, problem="It is empty.")
    page = _READERS[kind](facts, body)
    if len(page.text) <= MOST_CHARS:
        return page
    note = f"It is longer than {MOST_CHARS:,} characters; the rest was left out."
    return PageText(page.kind, page.title, page.text[:MOST_CHARS], note=f"{page.note} {note}".strip())


def find_kind(facts: PageFacts, body: bytes) -> str:
    """What the bytes are, by the type that the server says and, where that says nothing, by how they begin."""
    said, head = facts.content_type.lower(), body[:_SNIFFED]
    if head.lstrip().startswith(b"%PDF-"):
        return PDF
    if said in _TYPES:
        return _TYPES[said]
    if said.startswith("text/") or said.endswith(("+json", "+xml")):
        return TEXT
    if said not in _UNKNOWN_TYPES:
        return BINARY
    if _BEGINS_HTML.match(head):
        return HTML
    is_marked = any(body.startswith(mark) for mark, _ in _BYTE_MARKS)
    return BINARY if b"\0" in head and not is_marked else TEXT


# --- the readers, by kind


def _read_html(facts: PageFacts, body: bytes) -> PageText:
    reader = importlib.import_module("tools.web.page_markdown")  # brings lxml, which nothing else here needs
    source, title, text = _decode(body, facts.charset, _META_CHARSET), "", ""
    try:
        title, text = reader.read_html(source, facts.url)
    except reader.UNREADABLE:
        pass
    if text.strip():
        return PageText(HTML, title, text)
    if plain := reader.strip_markup(source):
        return PageText(HTML, title, plain, note="It has no readable part; this is all text that stands in it.")
    return PageText(HTML, title, problem="It holds no text: it may be made by scripts, which are not run here.")


def _read_text(facts: PageFacts, body: bytes) -> PageText:
    head = body[:_SNIFFED]
    if b"\0" in head and not any(body.startswith(mark) for mark, _ in _BYTE_MARKS) and not facts.charset:
        return _refuse(facts, body)
    return PageText(TEXT, text=_decode(body, facts.charset, _XML_CHARSET))


def _read_pdf(facts: PageFacts, body: bytes) -> PageText:
    if facts.cut:
        return PageText(PDF, problem="It is a PDF that is larger than what is fetched (web.page_megabytes).")
    pypdf: Any = importlib.import_module("pypdf")  # slow to load, and few pages are PDFs
    importlib.import_module("logging").disable()  # it logs each fault of a file
    try:
        document = pypdf.PdfReader(io.BytesIO(body))
        if document.is_encrypted and not document.decrypt(""):
            return PageText(PDF, problem="It is a PDF that needs a password.")
        return _read_pdf_pages(document)
    except (MemoryError, KeyboardInterrupt):
        raise
    except Exception as problem:  # noqa: BLE001 - whatever a broken file makes the library raise; nothing is logged here
        return PageText(PDF, problem=f"It is a PDF that cannot be read ({type(problem).__name__}).")


def _read_pdf_pages(document: Any) -> PageText:
    said: list[str] = []
    left = MOST_CHARS
    for number, page in enumerate(document.pages, start=1):
        text = page.extract_text().strip()
        if text:
            said.append(f"## Page {number}\n\n{text}")
            left -= len(text)
        if left < 0:
            break
    if not said:
        return PageText(PDF, problem="It is a PDF without text: its pages are images.")
    return PageText(PDF, str((document.metadata or {}).get("/Title") or "")[:300], "\n\n".join(said))


def _refuse(facts: PageFacts, body: bytes) -> PageText:
    what = facts.content_type or "no type is given"
    return PageText(BINARY, problem=f"It is no text that can be read here ({what}, {len(body):,} bytes).")


_READERS: Mapping[str, Callable[[PageFacts, bytes], PageText]] = {
    HTML: _read_html,
    TEXT: _read_text,
    PDF: _read_pdf,
    BINARY: _refuse,
}


# --- bytes to text


def _decode(body: bytes, charset: str, declared: re.Pattern[bytes]) -> str:
    """By its mark, by the header, by what it says itself, as UTF-8 if it is that, and else by a guess."""
    marked = next((name for mark, name in _BYTE_MARKS if body.startswith(mark)), "")
    said = declared.search(body[:_SNIFFED])
    for name in (marked, charset, said[1].decode("ascii") if said else ""):
        if (codec := _find_codec(name)) is not None:
            return body.decode(codec, "replace")
    try:
        return body.decode("utf-8")
    except UnicodeDecodeError as problem:
        if problem.start > len(body) - 4:  # cut within its last letter
            return body.decode("utf-8", "replace")
    guessing: Any = importlib.import_module("charset_normalizer")
    best = guessing.from_bytes(body[:_GUESSED]).best()
    return body.decode(_find_codec(best.encoding if best else "") or "cp1252", "replace")


def _find_codec(name: str) -> str | None:
    """The codec of a name; None: there is none, or none for text."""
    name = name.strip().lower()
    if not name:
        return None
    try:
        info = codecs.lookup(_READ_AS.get(name, name))
        b"".decode(info.name)
    except (LookupError, ValueError):
        return None
    return info.name
