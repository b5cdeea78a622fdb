"""What people say on XMPP: a stanza becomes a message, or a note on what else it is. Pure.

Who speaks is the bare address that the own server vouches for, in a room the one that its presences tell of a nick, in
its archive the one that they told of the room's id of somebody. A nick is for eyes only. Ids of messages count only
where the own server or the room has given them."""

import hashlib
import re
import time
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import PurePosixPath
from urllib.parse import unquote, urlsplit
from xml.etree.ElementTree import Element

from gateway.platforms.xmpp import SPEC
from gateway.platforms.xmpp.refusals import XmppTrouble, read_error
from gateway.platforms.xmpp.xmpp_xml import (
    CARBONS,
    CLIENT,
    CORRECT,
    DELAY,
    ENCRYPTED,
    FALLBACK,
    FORWARD,
    INVITE,
    MARKERS,
    MUC_USER,
    OCCUPANTS,
    OOB,
    RECEIPTS,
    REPLY,
    STANZA_IDS,
    find,
    find_all,
    has,
    read_bare,
    read_place,
    read_resource,
    read_stamp,
    read_text,
    read_typed,
)
from hermes_base import command_table
from hermes_base.inbound import Address, FileRef, Inbound
from hermes_base.text.file_names import make_safe_name

LOCAL_ID = "local-"  # begins the id of a message that no archive has
LONGEST_DELAY = 30 * 86400.0  # that a server may have kept a message for us
LOCKED_TEXT = "[a message that is encrypted from end to end, and cannot be read here]"
_IMAGES, _SOUNDS = (
    {".png", ".jpg", ".jpeg", ".gif", ".webp"},
    {".mp3", ".ogg", ".oga", ".opus", ".m4a", ".wav", ".flac"},
)


@dataclass(frozen=True, slots=True)
class XmppSelf:
    """Who we are there."""

    account: str  # its name in the settings
    jid: str  # bare
    trusts_ids: bool = True  # the server gives ids to messages, and takes away those that others made up


@dataclass(frozen=True, slots=True)
class XmppRoomView:
    """What has to be known of a room to read what is said there."""

    jid: str
    nick: str  # ours
    other_name: str = ""  # what else we are called there
    trusts_ids: bool = True
    own_messages: frozenset[str] = frozenset()  # ids, as the room gave them, of what we said there
    occupants: Mapping[str, str] = field(default_factory=dict)  # by the id that the room gave somebody: who it is


@dataclass(frozen=True, slots=True)
class Arrived:
    """A stanza, and where in an archive it stands; `stamp` is of the archive."""

    stanza: Element
    archive: str = ""
    stamp: float = 0.0
    live: bool = False  # it came by itself; else it was read in the archive
    person: str = ""  # in a room, live: who had the nick when it came; a moment later somebody else may have it
    came: float = field(default_factory=time.time)


@dataclass(frozen=True, slots=True)
class XmppSaid:
    """A message of a person."""

    inbound: Inbound
    id: str  # as its client calls it
    client: str  # the full address that it came from
    corrects: str = ""  # the client's id of the message whose place it takes
    receipt: bool = False  # its sender wants to know that it arrived
    markable: bool = False  # and that it was read


@dataclass(frozen=True, slots=True)
class Locked:
    """A message that is encrypted from end to end. `inbound` says who wrote it, and nothing else."""

    inbound: Inbound


@dataclass(frozen=True, slots=True)
class Bounced:
    """A message of ours was not taken."""

    id: str
    chat: str
    trouble: XmppTrouble


@dataclass(frozen=True, slots=True)
class Reflected:
    """A room shows a message of ours."""

    id: str
    archive: str


@dataclass(frozen=True, slots=True)
class Invited:
    """Somebody wants us in a room. `vouched`: the server of whoever invites says so, not the room's."""

    room: str
    person: str
    password: str = ""
    vouched: bool = True


@dataclass(frozen=True, slots=True)
class XmppPassed:
    """Nothing for us, and why."""

    reason: str


class OddStanza(ValueError):
    """A stanza that is not as documented; what people wrote is no part of the error."""


StanzaRead = XmppSaid | Locked | Bounced | Reflected | Invited | XmppPassed


def unwrap_carbon(stanza: Element, me: XmppSelf) -> Element | None:
    """What another client of the account was sent; None: it is no copy. Only our own server makes them."""
    for name in ("received", "sent"):
        copy = find(stanza, CARBONS, name)
        if copy is None:
            continue
        if read_bare(stanza.get("from")) != me.jid or "/" in (stanza.get("from") or ""):
            raise OddStanza("a copy that our server did not make")
        inner = find(find(copy, FORWARD, "forwarded"), CLIENT, "message")
        if inner is None:
            raise OddStanza("a copy of nothing")
        return inner
    return None


# --- direct chats


def read_direct(arrived: Arrived, me: XmppSelf) -> StanzaRead:
    """What a message to the account says; OddStanza when it is not as documented."""
    stanza = arrived.stanza
    sender, kind = read_bare(stanza.get("from")), stanza.get("type") or "normal"
    if kind == "error":
        return Bounced(stanza.get("id") or "", sender, read_error(stanza))
    if not sender:
        raise OddStanza("from is no address")
    if sender == me.jid:
        return XmppPassed("our own")
    if (invited := _read_invitation(stanza, sender)) is not None:
        return invited
    if kind not in ("chat", "normal"):
        return XmppPassed(f"of the type {kind}")
    if has(stanza, MUC_USER, "x"):
        return XmppPassed("whispered in a room")
    if "@" not in sender:
        return XmppPassed("a server's word")
    address = Address(SPEC.name, me.account, sender)
    message = arrived.archive or read_archive_id(stanza, me.jid if me.trusts_ids else "")
    return _read_words(arrived, me, address, sender, sender.partition("@")[0], message)


def _read_invitation(stanza: Element, sender: str) -> Invited | None:
    """By a person (XEP-0249), or by a room in somebody's name."""
    direct = find(stanza, INVITE, "x")
    mediated = find(find(stanza, MUC_USER, "x"), MUC_USER, "invite")
    if mediated is not None and "/" not in (stanza.get("from") or ""):
        person, password = read_bare(mediated.get("from")), read_text(find(stanza, MUC_USER, "x"), MUC_USER, "password")
        return Invited(sender, person, password, vouched=False)
    room = read_typed(direct.get("jid")) if direct is not None else ""
    if direct is None or "@" not in room:
        return None
    return Invited(room, sender, direct.get("password") or "")


# --- rooms


def read_room(arrived: Arrived, me: XmppSelf, view: XmppRoomView) -> StanzaRead:
    """What was said in a room that we are in."""
    stanza = arrived.stanza
    nick, kind = read_resource(stanza.get("from")), stanza.get("type") or "normal"
    if kind == "error":
        return Bounced(stanza.get("id") or "", view.jid, read_error(stanza))
    if kind != "groupchat":
        invited = _read_invitation(stanza, view.jid)
        return invited or XmppPassed("whispered in a room")
    if not nick:
        return XmppPassed("the room's own word")
    message = arrived.archive or read_archive_id(stanza, view.jid if view.trusts_ids else "")
    person = arrived.person if arrived.live else read_writer(stanza, view.occupants)
    if person == me.jid or (nick == view.nick and arrived.live):
        return Reflected(stanza.get("id") or read_origin(stanza), message)
    if not person:
        return XmppPassed("the room does not say who it is")
    address = Address(SPEC.name, me.account, view.jid, "group")
    read = _read_words(arrived, me, address, person, nick, message)
    if not isinstance(read, XmppSaid):
        return read
    text, named = read_call(read.inbound.text, view.nick)
    if view.other_name and not named:
        text, named = read_call(read.inbound.text, view.other_name)
    replied = read.inbound.reply_to in view.own_messages
    inbound = replace(read.inbound, text=_as_command(text), mentioned=named or replied)
    return replace(read, inbound=inbound, receipt=False)


def read_occupant(stanza: Element) -> str:
    """The id that a room gave whoever sent this (XEP-0421); empty: none, or more than one, and then somebody made one
    up."""
    found = [one.get("id") or "" for one in find_all(stanza, OCCUPANTS, "occupant-id")]
    return found[0] if len(found) == 1 else ""


def read_writer(stanza: Element, occupants: Mapping[str, str]) -> str:
    """Who wrote what stands in a room's archive: whose presence had this id. The addresses in it count for nothing:
    rooms leave there what the writer made up, and one that hid its people then may show them now."""
    return occupants.get(read_occupant(stanza), "")


def read_call(text: str, nick: str) -> tuple[str, bool]:
    """The text without our nick and a colon before it, and whether it names us."""
    name = re.escape(nick)
    called = re.match(rf"@?{name}\s*[:,]\s*(?=\S)", text, re.IGNORECASE)
    if called:
        return text[called.end() :], True
    return text, re.search(rf"(?<![\w@/.-]){name}(?![\w@/-])|(?<!\S)@{name}(?!\w)", text, re.IGNORECASE) is not None


# --- words


def _read_words(arrived: Arrived, me: XmppSelf, address: Address, sender: str, name: str, message: str) -> StanzaRead:
    stanza = arrived.stanza
    body, client = read_text(stanza, CLIENT, "body"), stanza.get("from") or ""
    id_ = stanza.get("id") or read_origin(stanza)
    message = message or _make_local_id(client, id_, body)
    received = arrived.stamp or _read_delay(arrived, me)
    if _is_locked(stanza, body):
        return Locked(Inbound(address, message, sender, LOCKED_TEXT, sender_name=name, received=received))
    files = tuple(_read_files(stanza))
    reply = find(stanza, REPLY, "reply")
    text, quote = _split_fallback(stanza, body) if reply is not None else (body, "")
    if files and text.strip() in {file.remote for file in files}:
        text = ""
    if not text.strip() and not files:
        return XmppPassed("without words")
    if text.startswith("/me "):
        text = f"* {name} {text[4:]}"
    inbound = Inbound(
        address,
        message,
        sender,
        _as_command(text),
        sender_name=name,
        reply_to=(reply.get("id") or "") if reply is not None else "",
        quote=quote,
        files=files,
        received=received,
    )
    replaced = find(stanza, CORRECT, "replace")
    corrects = (replaced.get("id") or "") if replaced is not None else ""
    return XmppSaid(inbound, id_, client, corrects, has(stanza, RECEIPTS, "request"), has(stanza, MARKERS, "markable"))


def _read_delay(arrived: Arrived, me: XmppSelf) -> float:
    """When our server got a message that it kept for us, if it waited; else when it came. A sender may write such a
    time, too: the first of them counts, none that is to come, and none from before servers keep anything. So nobody
    answers with an old word what was asked since."""
    own = (me.jid, me.jid.partition("@")[2])
    told = [
        read_stamp(one.get("stamp") or "") for one in find_all(arrived.stanza, DELAY, "delay") if one.get("from") in own
    ]
    return max(min([arrived.came, *filter(None, told)]), arrived.came - LONGEST_DELAY)


def read_archive_id(stanza: Element, giver: str) -> str:
    """The id that our server, or the room, gave a message; empty: none, or more than one, and then somebody made one
    up."""
    found = [one.get("id") or "" for one in find_all(stanza, STANZA_IDS, "stanza-id") if one.get("by") == giver]
    return found[0] if giver and len(found) == 1 else ""


def read_origin(stanza: Element) -> str:
    origin = find(stanza, STANZA_IDS, "origin-id")
    return (origin.get("id") or "") if origin is not None else ""


def _make_local_id(client: str, id_: str, body: str) -> str:
    """A name for a message that no archive has. A client may use an id twice: another text is another message. Without
    any id none is like another."""
    seed = f"{client}\0{id_}\0{body}" if id_ else f"{time.time_ns()}\0{client}\0{body}"
    return LOCAL_ID + hashlib.sha256(seed.encode("utf-8", "replace")).hexdigest()[:24]


def _is_locked(stanza: Element, body: str) -> bool:
    """A file of an encrypted chat has its key in the address."""
    return any(has(stanza, space, name) for space, name in ENCRYPTED) or body.lstrip().startswith("aesgcm://")


def _read_files(stanza: Element) -> list[FileRef]:
    files = []
    for one in find_all(stanza, OOB, "x"):
        url = read_text(one, OOB, "url").strip()
        try:
            parts = urlsplit(url)
        except ValueError:
            continue
        if parts.scheme in ("http", "https") and parts.netloc:
            name = make_safe_name(unquote(parts.path.rpartition("/")[2]) or "file")
            suffix = PurePosixPath(name).suffix.lower()
            kind = "image" if suffix in _IMAGES else "audio" if suffix in _SOUNDS else "file"
            files.append(FileRef("", name, kind, 0, url))
    return files[:10]


def _split_fallback(stanza: Element, body: str) -> tuple[str, str]:
    """The text of a reply, and what of it only repeats the other message, for clients without replies."""
    for one in find_all(stanza, FALLBACK, "fallback"):
        place = find(one, FALLBACK, "body") if one.get("for") == REPLY else None
        if place is None:
            continue
        start, end = read_place(place.get("start"), 0), read_place(place.get("end"), len(body))
        if start is not None and end is not None and start <= end <= len(body):
            quoted = "\n".join(line.removeprefix(">").removeprefix(" ") for line in body[start:end].split("\n"))
            return body[:start] + body[end:], quoted.strip()
    return body, ""


def _as_command(text: str) -> str:
    """Some clients keep a slash for commands of their own: an exclamation mark does as well."""
    asked = command_table.parse(f"/{text[1:]}") if text.startswith("!") else None
    return f"/{text[1:]}" if asked is not None and asked[0] is not None else text
