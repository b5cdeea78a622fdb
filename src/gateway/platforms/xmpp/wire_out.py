"""What people on XMPP are told: a part or a file becomes a stanza. Pure."""

import hashlib
import re
from xml.etree.ElementTree import Element

from gateway.platforms.face import Part
from gateway.platforms.xmpp.xmpp_xml import (
    CLIENT,
    CORRECT,
    HINTS,
    MARKERS,
    MUC,
    OOB,
    RECEIPTS,
    REPLY,
    STANZA_IDS,
    STATES,
    add,
    clean_xml,
    make,
)

STYLING = "styling"  # the dialect of parts that are sent with their markup (XEP-0393)
AGAIN = "(sent again: the first may have arrived)"
_ID = re.compile(r"h[0-9a-f]{32}(?:-[0-9a-z]+)?")
CAPTION = "-c"  # behind the id of a file's message: that of the words beside it


def make_id(salt: str, *parts: str) -> str:
    """The id of a message of ours: the same for a repetition, and another one in another home, whose rows have the same
    numbers."""
    return "h" + hashlib.sha256("\0".join((salt, *parts)).encode("utf-8", "replace")).hexdigest()[:32]


def is_message_id(platform_id: str) -> bool:
    return _ID.fullmatch(platform_id) is not None


def measure(part: Part) -> int:
    """Bytes of the text as it is shown."""
    return len(clean_xml(part.text).encode())


def make_message(part: Part, id_: str, text: str = "") -> Element:
    """`text`: what is said in the place of the part's own."""
    stanza = _begin(part, id_)
    add(stanza, CLIENT, "body", clean_xml(text or part.text))
    return stanza


def make_edit(part: Part, id_: str, message: str) -> Element:
    """The new text of a message (XEP-0308): any of ours may be named, and those who show it look it up by its id."""
    stanza = make_message(part, id_)
    add(stanza, CORRECT, "replace", id=message)
    return stanza


def make_file(part: Part, id_: str, url: str) -> Element:
    """A file is an address and nothing else: words beside it, and clients would show it as words."""
    stanza = _begin(part, id_)
    add(stanza, CLIENT, "body", url)
    add(add(stanza, OOB, "x"), OOB, "url", url)
    return stanza


def add_reply(stanza: Element, to: str, message: str) -> Element:
    """It answers this message (XEP-0461); the text repeats nothing of it."""
    add(stanza, REPLY, "reply", to=to, id=message)
    return stanza


def make_typing(to: str, *, group: bool) -> Element:
    stanza = make(CLIENT, "message", to=to, type="groupchat" if group else "chat")
    add(stanza, STATES, "composing")
    add(stanza, HINTS, "no-store")
    return stanza


def make_receipt(to: str, message: str) -> Element:
    """Its client's id of a message: it has arrived."""
    stanza = make(CLIENT, "message", to=to, type="chat")
    add(stanza, RECEIPTS, "received", id=message)
    add(stanza, HINTS, "store")
    return stanza


def make_marker(to: str, message: str, *, group: bool) -> Element:
    """It was read."""
    stanza = make(CLIENT, "message", to=to, type="groupchat" if group else "chat")
    add(stanza, MARKERS, "displayed", id=message)
    return stanza


def make_join(room: str, nick: str, password: str, history: int) -> Element:
    stanza = make(CLIENT, "presence", to=f"{room}/{nick}")
    join = add(stanza, MUC, "x")
    add(join, MUC, "history", maxstanzas=str(history))
    if password:
        add(join, MUC, "password", password)
    return stanza


def make_rename(room: str, nick: str) -> Element:
    """We want to be called so from now on."""
    return make(CLIENT, "presence", to=f"{room}/{nick}")


def make_leave(room: str, nick: str) -> Element:
    return make(CLIENT, "presence", to=f"{room}/{nick}", type="unavailable")


def make_consent(to: str) -> Element:
    """They may see whether we are there."""
    return make(CLIENT, "presence", to=to, type="subscribed")


def _begin(part: Part, id_: str) -> Element:
    kind = "chat" if part.address.kind == "dm" else "groupchat"
    stanza = make(CLIENT, "message", to=part.address.chat, type=kind, id=id_)
    add(stanza, STANZA_IDS, "origin-id", id=id_)
    add(stanza, STATES, "active")
    add(stanza, HINTS, "store")
    if part.markup != STYLING:
        add(stanza, "urn:xmpp:styling:0", "unstyled")
    return stanza


def mark_again(stanza: Element) -> None:
    """A visible word that it may be there twice."""
    body = stanza.find(f"{{{CLIENT}}}body")
    if body is not None and stanza.find(f"{{{OOB}}}x") is None:
        body.text = f"{AGAIN}\n{body.text or ''}"
