"""What IRC is told: a text becomes lines that arrive whole. Pure."""

import re
from collections.abc import Iterator, Mapping

from gateway.platforms.irc.connection.irc_line import MOST_BYTES, clean_words
from gateway.platforms.irc.wire import CTCP, LOCAL_ID, ClientQuestion
from hermes_base.text.whole_text import clean_text

MARKED = "irc"  # the dialect of parts that are sent with their markup
LONGEST_PREFIX = 110  # bytes of nick!user@host, until the server has shown it
CLIENT_NAME = "Hermes"
MOST_ECHO = 60  # signs of a CTCP PING that are given back
REPLY_TAG = "+draft/reply"
_MARKS = "\x02\x1d\x1e"
_CONTROL = re.compile(r"[\x00-\x1f\x7f]")
_NOT_MARKS = re.compile(rf"(?![{_MARKS}])[\x00-\x1f\x7f]")


def make_texts(text: str, target: str, prefix: str, markup: str) -> list[str]:
    """The messages of a text: one for each line that says something. One that would be cut by the server, with our name
    as long as it is, becomes two."""
    room = MOST_BYTES - 2 - len(f":{prefix} PRIVMSG {target} :".encode())
    if not prefix:
        room -= LONGEST_PREFIX
    allowed = _NOT_MARKS if markup == MARKED else _CONTROL
    texts: list[str] = []
    for line in clean_text(text).replace("\r", "\n").split("\n"):
        shown = allowed.sub("", line.replace("\t", "    "))
        if _CONTROL.sub("", shown).strip():
            texts += _fit(shown.rstrip(), max(room, 64))
    return texts


def _fit(text: str, room: int) -> Iterator[str]:
    """Pieces within so many bytes, cut between words where there is one to cut at."""
    while len(text.encode()) > room:
        head = text.encode()[:room].decode("utf-8", "ignore")
        space = head.rfind(" ")
        cut = space if space > len(head) // 2 else len(head)
        yield text[:cut]
        text = text[cut:].lstrip(" ")
    if text:
        yield text


def make_tags(reply_to: str) -> Mapping[str, str]:
    """What goes before a message: which one it replies to, where the server gave that one an id."""
    return {REPLY_TAG: reply_to} if reply_to and not reply_to.startswith(LOCAL_ID) else {}


def answer_client(question: ClientQuestion) -> str:
    """What a client is told about ours, as the text of a NOTICE; empty: nothing."""
    match question.kind:
        case "VERSION":
            return f"{CTCP}VERSION {CLIENT_NAME}{CTCP}"
        case "PING":
            return f"{CTCP}PING {_CONTROL.sub('', clean_words(question.words))[:MOST_ECHO]}{CTCP}"
    return ""
