"""XML of XMPP: the names that are spoken here, and small ways to read and write elements. Pure."""

import re
from collections.abc import Iterator
from datetime import datetime
from xml.etree.ElementTree import Element, SubElement

from gateway.platforms.xmpp import fold_address
from hermes_base.text.whole_text import clean_text

CLIENT, STANZAS = "jabber:client", "urn:ietf:params:xml:ns:xmpp-stanzas"
DELAY, FORWARD, CARBONS = "urn:xmpp:delay", "urn:xmpp:forward:0", "urn:xmpp:carbons:2"
STANZA_IDS, ARCHIVE, RESULT_SET, FORM = (
    "urn:xmpp:sid:0",
    "urn:xmpp:mam:2",
    "http://jabber.org/protocol/rsm",
    "jabber:x:data",
)
OCCUPANTS = "urn:xmpp:occupant-id:0"
MUC, MUC_USER, INVITE = "http://jabber.org/protocol/muc", "http://jabber.org/protocol/muc#user", "jabber:x:conference"
CORRECT, RECEIPTS, MARKERS = "urn:xmpp:message-correct:0", "urn:xmpp:receipts", "urn:xmpp:chat-markers:0"
STATES, HINTS = "http://jabber.org/protocol/chatstates", "urn:xmpp:hints"
OOB, UPLOAD, REPLY, FALLBACK = "jabber:x:oob", "urn:xmpp:http:upload:0", "urn:xmpp:reply:0", "urn:xmpp:fallback:0"
DISCO_INFO, DISCO_ITEMS = "http://jabber.org/protocol/disco#info", "http://jabber.org/protocol/disco#items"
PING, STREAM_ERRORS = "urn:xmpp:ping", "urn:ietf:params:xml:ns:xmpp-streams"
#: What says that a message is encrypted from end to end: OMEMO in both its forms, OpenPGP in both of its.
ENCRYPTED = (
    ("eu.siacs.conversations.axolotl", "encrypted"),
    ("urn:xmpp:omemo:2", "encrypted"),
    ("urn:xmpp:openpgp:0", "openpgp"),
    ("jabber:x:encrypted", "x"),
)
_BARE = re.compile(r"(?:[^\s@/\"&'<>:\x00-\x1f\x7f]{1,1023}@)?[^\s@/\"&'<>\x00-\x1f\x7f]{1,1023}")
_FORBIDDEN = re.compile("[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def make(space: str, name: str, text: str = "", **attributes: str) -> Element:
    """An element of its own. A name with an underscore behind it stands for one that Python keeps for itself."""
    made = Element(f"{{{space}}}{name}", {key.rstrip("_"): value for key, value in attributes.items() if value})
    made.text = text or None
    return made


def add(parent: Element, space: str, name: str, text: str = "", **attributes: str) -> Element:
    """The same below another one."""
    made = make(space, name, text, **attributes)
    parent.append(made)
    return made


def find(parent: Element | None, space: str, name: str) -> Element | None:
    return None if parent is None else parent.find(f"{{{space}}}{name}")


def find_all(parent: Element | None, space: str, name: str) -> list[Element]:
    return [] if parent is None else parent.findall(f"{{{space}}}{name}")


def has(parent: Element | None, space: str, name: str) -> bool:
    return find(parent, space, name) is not None


def read_text(parent: Element | None, space: str, name: str) -> str:
    found = find(parent, space, name)
    return "" if found is None else found.text or ""


def name_of(element: Element) -> str:
    return element.tag.rpartition("}")[2]


def children_of(parent: Element, space: str) -> Iterator[Element]:
    return (child for child in parent if child.tag.startswith(f"{{{space}}}"))


def read_bare(text: str | None) -> str:
    """The address of an account or a room as servers tell it, without the client behind it; empty: it is none. Servers
    have brought it into its one form: whatever is folded here could make one of two accounts."""
    bare = (text or "").partition("/")[0]
    return bare if _BARE.fullmatch(bare) else ""


def read_resource(text: str | None) -> str:
    """The client of an account, or the nick in a room, as servers tell it."""
    return (text or "").partition("/")[2] if read_bare(text) else ""


def read_typed(text: str | None) -> str:
    """The address of an account or a room as a person has written it, in the form in which servers tell it; empty: it
    is none."""
    typed = fold_address((text or "").strip())
    return typed if _BARE.fullmatch(typed) else ""


def read_stamp(stamp: str) -> float:
    """A time as servers write it; 0.0: none that can be read."""
    try:
        return datetime.fromisoformat(stamp.replace("Z", "+00:00")).timestamp()
    except (ValueError, OverflowError):
        return 0.0


def read_place(text: str | None, otherwise: int) -> int | None:
    """A place in a text; `otherwise` where nothing stands; None: it is no number, or larger than any text."""
    if not text:
        return otherwise
    return int(text) if len(text) < 10 and text.isdecimal() else None


def clean_xml(text: str) -> str:
    """The text without what XML forbids: a server ends the line of whoever sends that."""
    return _FORBIDDEN.sub("", clean_text(text).replace("\r\n", "\n").replace("\r", "\n"))


def make_form(kind: str, **fields: str) -> Element:
    """A form that is handed in; names with `__` in them have a `-` there."""
    form = make(FORM, "x", type="submit")
    SubElement(SubElement(form, f"{{{FORM}}}field", var="FORM_TYPE", type="hidden"), f"{{{FORM}}}value").text = kind
    for name, value in fields.items():
        if value:
            SubElement(SubElement(form, f"{{{FORM}}}field", var=name.rstrip("_")), f"{{{FORM}}}value").text = value
    return form
