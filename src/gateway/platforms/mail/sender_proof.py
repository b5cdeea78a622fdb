"""Who a mail is from, if that is proven: by what the mailbox's own server says about it, and by nothing else.

Anybody can write any name and any address into a mail. The server that took it in checks signatures and writes the
result on top (`Authentication-Results`, RFC 8601). Everything here is read strictly; where there is doubt, nothing is
proven. Pure.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from email.errors import HeaderParseError
from email.header import decode_header

_ATOM = r"[A-Za-z0-9!#$%&'*+/=?^_`{|}~-]+"
_LABEL = r"[A-Za-z0-9](?:[A-Za-z0-9-]{0,61}[A-Za-z0-9])?"
_ADDRESS = re.compile(rf"({_ATOM}(?:\.{_ATOM})*)@({_LABEL}(?:\.{_LABEL})+)")
#: A name is atoms and quoted texts; then the one address. Brackets of any kind are nowhere else.
_QUOTED = r'"(?:[^"\\\r\n]|\\[^\r\n])*+"'
_MAILBOX = re.compile(rf"[ \t]*+((?:(?:{_QUOTED}|[^\s\"<>()\[\],:;@\\]++)[ \t]*+)*+)<([^<>\s\"]++)>[ \t]*+")
_PAIR = re.compile(r"[ \t]*([A-Za-z0-9._-]+)(?:[ \t]*/[ \t]*[0-9]+)?[ \t]*=[ \t]*(\"(?:[^\"\\]|\\.)*\"|[^\s;\"]+)")
_SERVER_NAME = re.compile(r"([A-Za-z0-9._:/-]++)[ \t\r\n]*+(?=[;(0-9]|\Z)")
_LONGEST = 998  # of a header field that is looked at
_LONGEST_NAME = 100
_LONGEST_WORDS = 2_000
#: What DMARC says when it has nothing to say; a signature may still prove the sender.
_NO_VERDICT = frozenset({"none", "temperror", "permerror"})


@dataclass(frozen=True, slots=True)
class ProvenSender:
    address: str  # in small letters
    name: str  # for eyes only


@dataclass(frozen=True, slots=True)
class UnprovenSender:
    reason: str


@dataclass(frozen=True, slots=True)
class AuthResult:
    """One check: `dkim=pass header.d=example.org`."""

    method: str
    result: str
    facts: Mapping[str, str]


def prove_sender(senders: Sequence[str], results: Sequence[str], authserv_id: str) -> ProvenSender | UnprovenSender:
    """From all `From` fields and all `Authentication-Results` fields of a mail, the topmost first."""
    if len(senders) != 1:
        return UnprovenSender("it has not exactly one From field")
    found = read_sender(senders[0])
    if found is None:
        return UnprovenSender("its From field is not one plain address")
    domain = found.address.rpartition("@")[2]
    own = find_own(results, authserv_id)
    if own is None:
        return UnprovenSender(f"no Authentication-Results are for sure by {authserv_id or 'anybody'}")
    checks = read_results(own)
    if checks is None:
        return UnprovenSender("its Authentication-Results cannot be read")
    verdicts = [check for check in checks if check.method == "dmarc"]
    if len(verdicts) > 1:
        return UnprovenSender("it has two verdicts of DMARC")
    if verdicts and verdicts[0].result == "pass" and verdicts[0].facts.get("header.from") == domain:
        return found
    if verdicts and verdicts[0].result not in _NO_VERDICT:
        return UnprovenSender(f"DMARC says {verdicts[0].result}, not for {domain}")
    signed = (check for check in checks if check.method == "dkim" and check.result == "pass")
    if any(_is_aligned(check, domain) for check in signed):
        return found
    return UnprovenSender(f"neither DMARC nor a signature of {domain} proves its sender")


def read_address(text: str) -> str | None:
    """One plain address in small letters; None: it is none, or not plainly one."""
    found = _ADDRESS.fullmatch(text.strip(" \t"))
    return found[0].lower() if found and len(found[1]) <= 64 and len(found[0]) <= 254 else None


def read_sender(field: str) -> ProvenSender | None:
    """The one sender of a From field: `a@b.org`, `<a@b.org>` or `Name <a@b.org>`; None for anything else, such as
    groups, lists, routes and comments."""
    if not field.isascii() or len(field) > _LONGEST or any(ord(char) < 32 and char != "\t" for char in field):
        return None
    alone = read_address(field)
    if alone is not None:
        return ProvenSender(alone, "")
    found = _MAILBOX.fullmatch(field)
    address = read_address(found[2]) if found else None
    if found is None or address is None:
        return None
    return ProvenSender(address, read_name(found[1]))


def read_name(phrase: str) -> str:
    """A display name on one line; empty where it looks like an address, which it is not."""
    bare = re.sub(_QUOTED, lambda quoted: re.sub(r"\\(.)", r"\1", quoted[0][1:-1]), phrase).strip()
    name = " ".join(decode_words(bare).split())[:_LONGEST_NAME]
    return "" if "@" in name or "＠" in name else name


def decode_words(text: str) -> str:
    """A header's text with its encoded words read; what cannot be read stays as it is, and nothing turns the line. Of a
    text without end only its beginning: what reads it takes the square of its length."""
    text = text[:_LONGEST_WORDS]
    try:
        pieces = decode_header(text)
    except (ValueError, HeaderParseError):
        pieces = [(text, None)]
    read = "".join(piece if isinstance(piece, str) else _decode(piece, charset) for piece, charset in pieces)
    return "".join(char if char.isprintable() else " " for char in read)


def _decode(piece: bytes, charset: str | None) -> str:
    try:
        return piece.decode(charset or "ascii")
    except (LookupError, ValueError):
        return piece.decode("utf-8", "replace")


# --- Authentication-Results


def read_results(field: str) -> list[AuthResult] | None:
    """The checks of one field; None: it is not as it has to be, and nothing of it counts."""
    segments = _split(field)
    if segments is None or not re.fullmatch(r"[ \t]*[^\s=;]+(?:[ \t]+[0-9]+)?[ \t]*", segments[0]):
        return None
    checks = []
    for segment in segments[1:]:
        if not segment.strip() or segment.strip().lower() == "none":
            continue
        pairs: list[tuple[str, str]] = []
        at = 0
        while found := _PAIR.match(segment, at):
            pairs.append((found[1].lower(), found[2].strip('"').lower().rstrip(".")))
            at = found.end()
        facts = dict(pairs[1:])
        if not pairs or segment[at:].strip() or len(facts) != len(pairs) - 1:
            return None
        checks.append(AuthResult(pairs[0][0], pairs[0][1], facts))
    return checks


def find_own(results: Sequence[str], authserv_id: str) -> str | None:
    """The topmost field by this name, whatever else it holds; None: there is none, or one above it may be."""
    for field in results:
        by = read_authserv_id(field)
        if not by:
            return None
        if by == authserv_id.lower():
            return field
    return None


def read_authserv_id(field: str) -> str:
    """Who wrote the field, in small letters; empty: that cannot be said. Only its beginning is looked at: senders have
    a say in the rest, and could spoil it."""
    at = depth = 0
    while at < len(field) and (depth or field[at] in " \t\r\n("):
        depth += {"(": 1, ")": -1}.get(field[at], 0)
        at += 2 if field[at] == "\\" else 1
    found = _SERVER_NAME.match(field, at)
    return found[1].lower() if found and not depth else ""


def _split(field: str) -> list[str] | None:
    """The segments between semicolons, without comments; None: a quote or a comment is not closed."""
    segments, bits, depth, at = [], [], 0, 0
    text = re.sub(r"\r?\n(?=[ \t])", "", field)
    if any(ord(char) < 32 and char != "\t" for char in text):
        return None
    while at < len(text):
        char = text[at]
        if char == "\\" and depth:
            at += 2
            continue
        if char == '"' and not depth:
            quoted = re.compile(_QUOTED).match(text, at)
            if quoted is None:
                return None
            bits.append(quoted[0])
            at = quoted.end()
            continue
        if char in "()":
            depth += 1 if char == "(" else -1
            if depth < 0:
                return None
            bits.append(" ")
        elif char == ";" and not depth:
            segments.append("".join(bits))
            bits = []
        elif not depth:
            bits.append(char)
        at += 1
    return None if depth else [*segments, "".join(bits)]


def _is_aligned(check: AuthResult, domain: str) -> bool:
    """Whether the signature is of the sender's domain, or of one above it, whose owner has that one in hand anyway."""
    signer = check.facts.get("header.d") or check.facts.get("header.i", "").rpartition("@")[2]
    return "." in signer and (signer == domain or domain.endswith(f".{signer}"))
