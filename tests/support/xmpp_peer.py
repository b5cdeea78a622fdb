"""Prosody on loopback: a server of its own for each test process, people at it, and a wire that can be cut."""

import atexit
import base64
import functools
import itertools
import os
import re
import shutil
import socket
import subprocess
import tempfile
import threading
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Any
from xml.etree.ElementTree import Element, ParseError, XMLPullParser
from xml.sax.saxutils import escape, quoteattr

from peer_server import PeerProcess, answers, need_peer
from waiting import wait_until

from hermes_lab.ports import free_ports

DOMAIN, ROOMS, HIDING, FORGETTING = "hermes.test", "rooms.hermes.test", "hiding.hermes.test", "forgetting.hermes.test"
NAMELESS = "nameless.hermes.test"  # its rooms give people no ids
PASSWORD = "the-very-secret-word"
_DAEMON = "prosody"  # it does not run as root
_PATIENCE = 30.0
_CLIENT = "{jabber:client}"
_CONFIG = """
pidfile = "{folder}/prosody.pid"
data_path = "{folder}/data"
plugin_paths = {{ "{folder}/modules" }}
interfaces = {{ "127.0.0.1" }}
c2s_ports = {{ {clients} }}
c2s_direct_tls_ports = {{ {direct} }}
s2s_ports = {{}}
http_ports = {{ {http} }}
http_interfaces = {{ "127.0.0.1" }}
https_ports = {{}}
http_default_host = "upload.hermes.test"
modules_enabled = {{ "saslauth", "tls", "disco", "carbons", "mam", "smacks", "ping", "roster", "presence",
 "message", "iq", "offline", "register_ibr", "faults" }}
modules_disabled = {{ "s2s" }}
allow_registration = true
registration_invite_only = false
c2s_require_encryption = false
allow_unencrypted_plain_auth = true
authentication = "internal_hashed"
storage = "internal"
archive_expires_after = "never"
smacks_hibernation_time = 60
ssl = {{ key = "{folder}/server.key", certificate = "{folder}/server.pem" }}
log = {{ warn = "{folder}/prosody.log" }}
VirtualHost "hermes.test"
 disco_items = {{ {{ "rooms.hermes.test" }}, {{ "upload.hermes.test" }} }}
VirtualHost "bare.test"
 modules_disabled = {{ "mam", "smacks", "carbons" }}
Component "rooms.hermes.test" "muc"
 modules_enabled = {{ "muc_mam" }}
 muc_room_default_public_jids = true
Component "hiding.hermes.test" "muc"
 modules_enabled = {{ "muc_mam" }}
 muc_room_default_public_jids = false
Component "forgetting.hermes.test" "muc"
 muc_room_default_public_jids = true
Component "nameless.hermes.test" "muc"
 modules_enabled = {{ "muc_mam" }}
 muc_room_default_public_jids = true
 muc_occupant_id = false
Component "upload.hermes.test" "http_file_share"
 http_external_url = "http://127.0.0.1:{http}/"
 http_file_share_size_limit = 2000000
 http_file_share_access = {{ "hermes.test", "bare.test" }}
"""
#: Refuses messages of one account in the server's place, as tests ask for.
_FAULTS = """
local st = require "util.stanza";
local jid = require "util.jid";
local faults = module:shared("/*/faults/all");
module:hook("message/host", function (event)
  local fault = event.stanza:get_child("fault", "test:faults");
  if not fault then return; end
  local name = fault.attr["for"];
  faults[name] = faults[name] or {};
  table.insert(faults[name], { fault.attr.type, fault.attr.condition });
  return true;
end, 1000);
local function refuse(event)
  local from = jid.bare(event.stanza.attr.from);
  local waiting = faults[from];
  if not waiting or #waiting == 0 or not event.stanza:get_child("body") then return; end
  local fault = table.remove(waiting, 1);
  event.origin.send(st.error_reply(event.stanza, fault[1], fault[2], "as the test asked"));
  return true;
end
module:hook("pre-message/bare", refuse, 1000);
module:hook("pre-message/full", refuse, 1000);
"""
_numbers = itertools.count(1)


class XmppServer:
    """A Prosody in a folder. It may be stopped and started again; what it stored is there then."""

    def __init__(self, folder: Path) -> None:
        need_peer("prosody", "openssl")
        self.port, self.direct_port, self.http_port = free_ports(3)
        self.folder = folder
        make_certificates(folder)
        (folder / "data").mkdir()
        (folder / "modules").mkdir()
        (folder / "modules" / "mod_faults.lua").write_text(_FAULTS)
        ports = {"clients": self.port, "direct": self.direct_port, "http": self.http_port, "folder": folder}
        (folder / "prosody.cfg.lua").write_text(_CONFIG.format(**ports))
        command: list[str | Path] = ["prosody", "-F", "--config", folder / "prosody.cfg.lua"]
        if os.geteuid() == 0:
            for path in (folder, *folder.rglob("*")):
                shutil.chown(path, _DAEMON)
            command = ["setpriv", "--reuid", _DAEMON, "--regid", _DAEMON, "--clear-groups", *command]
        self._process = PeerProcess(command, folder)
        self.people: list[XmppPerson] = []

    def start(self) -> None:
        self._process.start(lambda: answers(self.port))

    def stop(self, kill: bool = False) -> None:
        """Those who were there are not any more."""
        self._process.stop(kill=kill)
        for person in self.people:
            person.close()
        self.people.clear()

    def add_account(self, name: str = "", domain: str = DOMAIN) -> str:
        """A new account; its address. Names are never used twice."""
        user = f"{name or 'u'}{next(_numbers)}".lower()
        with RawStream(self.port, domain) as line:
            fields = f"<username>{user}</username><password>{PASSWORD}</password>"
            line.write(f"<iq type='set' id='r'><query xmlns='jabber:iq:register'>{fields}</query></iq>")
            answer = line.wait(lambda one: one.tag == f"{_CLIENT}iq" and one.get("id") == "r")
            assert answer.get("type") == "result"
        return f"{user}@{domain}"

    def add_person(self, name: str = "", domain: str = DOMAIN) -> "XmppPerson":
        return XmppPerson(self, self.add_account(name, domain))


class RawStream:
    """A client that says what it is told, and reads on a thread of its own."""

    def __init__(self, port: int, domain: str) -> None:
        self.heard: list[Element] = []
        self._domain = domain
        self._line = socket.create_connection(("127.0.0.1", port), 10)
        self._line.settimeout(None)
        self._parser = XMLPullParser(("start", "end"))
        self._depth = 0
        self._thread = threading.Thread(target=self._read, daemon=True)
        self._thread.start()
        self.restart()

    def __enter__(self) -> "RawStream":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        try:
            self._line.shutdown(socket.SHUT_RDWR)
        except OSError:
            pass
        self._thread.join(5)
        self._line.close()

    def restart(self) -> None:
        self._parser, self._depth = XMLPullParser(("start", "end")), 0
        seen = len(self.heard)
        header = "xmlns='jabber:client' xmlns:stream='http://etherx.jabber.org/streams' version='1.0'"
        self.write(f"<?xml version='1.0'?><stream:stream to='{self._domain}' {header}>")
        self.wait(lambda one: one.tag.endswith("}features"), seen)

    def write(self, text: str) -> None:
        self._line.sendall(text.encode())

    def wait(self, fits: Callable[[Element], bool], seen: int = 0) -> Element:
        wait_until(lambda: any(fits(one) for one in self.heard[seen:]), _PATIENCE)
        return next(one for one in self.heard[seen:] if fits(one))

    def _read(self) -> None:
        while True:
            try:
                data = self._line.recv(65536)
            except OSError:
                return
            if not data:
                return
            parser = self._parser
            try:
                parser.feed(data)
                for event, element in parser.read_events():
                    self._depth += 1 if event == "start" else -1
                    if event == "end" and self._depth == 1:
                        self._take(element)
            except ParseError:
                return

    def _take(self, element: Element) -> None:
        self.heard.append(element)


class XmppPerson(RawStream):
    """Somebody with a client, which applies corrections as clients do."""

    def __init__(self, server: XmppServer, jid: str, resource: str = "phone") -> None:
        self.jid = jid
        self.server = server
        server.people.append(self)
        self._ids = itertools.count(1)
        super().__init__(server.port, jid.partition("@")[2])
        user = jid.partition("@")[0]
        proof = base64.b64encode(f"\0{user}\0{PASSWORD}".encode()).decode()
        self.write(f"<auth xmlns='urn:ietf:params:xml:ns:xmpp-sasl' mechanism='PLAIN'>{proof}</auth>")
        self.wait(lambda one: one.tag.endswith("}success"))
        self.restart()
        bind = f"<bind xmlns='urn:ietf:params:xml:ns:xmpp-bind'><resource>{resource}</resource></bind>"
        self.ask(bind, kind="set")
        self.write("<presence/>")
        self.wait(lambda one: one.tag == f"{_CLIENT}presence")

    def ask(self, payload: str, to: str = "", kind: str = "get") -> Element:
        id_ = f"q{next(self._ids)}"
        where = f" to={quoteattr(to)}" if to else ""
        self.write(f"<iq type='{kind}' id='{id_}'{where}>{payload}</iq>")
        return self.wait(lambda one: one.tag == f"{_CLIENT}iq" and one.get("id") == id_)

    def _take(self, element: Element) -> None:
        super()._take(element)
        if element.tag == f"{_CLIENT}iq" and element.get("type") in ("get", "set"):
            self.write(
                f"<iq type='result' id={quoteattr(element.get('id') or '')} to={quoteattr(element.get('from') or '')}/>"
            )

    # --- saying

    def say(self, to: str, text: str, more: str = "", kind: str = "chat", id_: str = "") -> str:
        """Returns when the server has taken it."""
        id_ = id_ or f"m{next(self._ids)}-{self.jid}"
        self.write(
            f"<message to={quoteattr(to)} type='{kind}' id={quoteattr(id_)}><body>{escape(text)}</body>{more}</message>"
        )
        self.ask("<ping xmlns='urn:xmpp:ping'/>", self.jid.partition("@")[2])
        return id_

    def correct(self, to: str, id_: str, text: str, kind: str = "chat") -> str:
        return self.say(to, text, f"<replace xmlns='urn:xmpp:message-correct:0' id={quoteattr(id_)}/>", kind)

    def send_file(self, to: str, name: str, data: bytes, kind: str = "chat") -> str:
        url = self.upload(name, data)
        return self.say(to, url, f"<x xmlns='jabber:x:oob'><url>{escape(url)}</url></x>", kind)

    def upload(self, name: str, data: bytes) -> str:
        request = f"<request xmlns='urn:xmpp:http:upload:0' filename={quoteattr(name)} size='{len(data)}'/>"
        slot = self.ask(request, "upload.hermes.test")
        space = "{urn:xmpp:http:upload:0}"
        put, get = slot.find(f"{space}slot/{space}put"), slot.find(f"{space}slot/{space}get")
        assert put is not None
        assert get is not None
        asked = urllib.request.Request(put.get("url") or "", data, method="PUT")
        for header in put.findall(f"{space}header"):
            asked.add_header(header.get("name") or "", header.text or "")
        with urllib.request.urlopen(asked, timeout=30):
            return str(get.get("url"))

    def refuse_next(self, bot: str, type_: str, condition: str) -> None:
        """The server refuses the next message of this account."""
        fault = f"<fault xmlns='test:faults' for={quoteattr(bot)} type='{type_}' condition='{condition}'/>"
        self.write(f"<message to='{DOMAIN}'>{fault}</message>")
        self.ask("<ping xmlns='urn:xmpp:ping'/>", self.jid.partition("@")[2])

    # --- rooms

    def make_room(self, service: str = ROOMS, nick: str = "Ann") -> str:
        """A new room that takes everybody."""
        room = f"room{next(_numbers)}@{service}"
        self.join(room, nick)
        form = "<x xmlns='jabber:x:data' type='submit'/>"
        self.ask(f"<query xmlns='http://jabber.org/protocol/muc#owner'>{form}</query>", room, "set")
        return room

    def join(self, room: str, nick: str) -> None:
        seen = len(self.heard)
        self.write(f"<presence to={quoteattr(f'{room}/{nick}')}><x xmlns='http://jabber.org/protocol/muc'/></presence>")
        self.wait(lambda one: _codes(one).issuperset({"110"}), seen)

    def configure(self, room: str, **fields: str) -> None:
        every = "".join(
            f"<field var='{name.replace('__', '#')}'><value>{value}</value></field>" for name, value in fields.items()
        )
        kind = "<field var='FORM_TYPE'><value>http://jabber.org/protocol/muc#roomconfig</value></field>"
        form = f"<x xmlns='jabber:x:data' type='submit'>{kind}{every}</x>"
        answer = self.ask(f"<query xmlns='http://jabber.org/protocol/muc#owner'>{form}</query>", room, "set")
        assert answer.get("type") == "result"

    def set_role(self, room: str, nick: str, role: str) -> None:
        item = f"<item nick={quoteattr(nick)} role='{role}'/>"
        self.ask(f"<query xmlns='http://jabber.org/protocol/muc#admin'>{item}</query>", room, "set")

    def invite(self, room: str, jid: str) -> None:
        """By word of mouth: from client to client (XEP-0249)."""
        self.write(f"<message to={quoteattr(jid)}><x xmlns='jabber:x:conference' jid={quoteattr(room)}/></message>")

    def invite_by_room(self, room: str, jid: str) -> None:
        invite = f"<invite to={quoteattr(jid)}/>"
        self.write(
            f"<message to={quoteattr(room)}><x xmlns='http://jabber.org/protocol/muc#user'>{invite}</x></message>"
        )

    def occupants(self, room: str) -> set[str]:
        """The nicks that are in a room."""
        there: set[str] = set()
        for one in self.heard:
            jid, _, nick = (one.get("from") or "").partition("/")
            if one.tag == f"{_CLIENT}presence" and jid == room:
                (there.discard if one.get("type") == "unavailable" else there.add)(nick)
        return there

    def came(self, room: str, nick: str, seen: int) -> bool:
        """Whether somebody went out of a room and came back, among what was heard since then."""
        told = [one.get("type") for one in self.heard[seen:] if one.get("from") == f"{room}/{nick}"]
        return "unavailable" in told and told[-1] is None

    # --- seeing

    def messages(self, sender: str, seen: int = 0) -> list[dict[str, Any]]:
        """What stands in a chat of somebody's, as a client shows it: `sender` is an account, or a room with a nick."""
        shown: dict[str, dict[str, Any]] = {}
        for one in list(self.heard[seen:]):
            if one.tag != f"{_CLIENT}message" or one.get("type") not in ("chat", "groupchat", "normal", None):
                continue
            giver = one.get("from") or ""
            if sender not in (giver, giver.partition("/")[0]):
                continue
            body = one.findtext(f"{_CLIENT}body")
            if body is None:
                continue
            replaced = one.find("{urn:xmpp:message-correct:0}replace")
            id_ = (replaced.get("id") if replaced is not None else one.get("id")) or f"?{len(shown)}"
            url = one.findtext("{jabber:x:oob}x/{jabber:x:oob}url") or ""
            if replaced is not None and id_ in shown:
                shown[id_].update(text=body, edits=shown[id_]["edits"] + 1)
            else:
                copy = {"id": id_, "text": body, "url": url, "edits": 0, "stanza": one}
                # Some clients would show a repetition as a second message: so does this one.
                shown[id_ if id_ not in shown else f"{id_} again {len(shown)}"] = copy
        return list(shown.values())

    def texts(self, sender: str, seen: int = 0) -> list[str]:
        """Words, and of files their names; the words beside a file belong to it."""
        every = self.messages(sender, seen)
        return [one["url"].rpartition("/")[2] or one["text"] for one in every if not one["id"].endswith("-c")]

    def count(self, sender: str, space: str, name: str) -> int:
        """How many messages of somebody hold this element."""
        tag = f"{{{space}}}{name}"
        giver = [one for one in list(self.heard) if (one.get("from") or "").startswith(sender)]
        return sum(one.find(tag) is not None for one in giver if one.tag == f"{_CLIENT}message")


def _codes(presence: Element) -> set[str]:
    space = "{http://jabber.org/protocol/muc#user}"
    return {one.get("code") or "" for one in presence.findall(f"{space}x/{space}status")}


@functools.cache
def start_server() -> XmppServer:
    """The one of this process; it ends with it."""
    folder = Path(tempfile.mkdtemp(prefix="prosody-"))
    folder.chmod(0o755)
    server = XmppServer(folder)
    server.start()

    def end() -> None:
        server.stop(kill=True)
        shutil.rmtree(folder, ignore_errors=True)

    atexit.register(end)
    return server


# --- the wire

_TAG = re.compile(rb"<[^>]*>")


class _Splitter:
    """A stream as whole stanzas."""

    def __init__(self) -> None:
        self._data = b""
        self._at = self._depth = self._start = 0

    def feed(self, data: bytes) -> list[bytes]:
        self._data += data
        whole = []
        while tag := _TAG.search(self._data, self._at):
            self._at, text = tag.end(), tag[0]
            if text.startswith((b"<?", b"<stream:stream", b"</stream:stream")):
                self._depth = 0
            elif text.startswith(b"</"):
                self._depth -= 1
            elif not text.endswith(b"/>"):
                self._depth += 1
            if self._depth == 0:
                whole.append(self._data[self._start : self._at])
                self._start = self._at
        self._data, self._at, self._start = self._data[self._start :], self._at - self._start, 0
        return whole


CUT_BEFORE, CUT_AFTER = "cut before", "cut after"


class XmppProxy:
    """A wire between the bot and the server that can be cut, at once or at a message of the bot's."""

    def __init__(self, port: int) -> None:
        self._upstream = port
        self._door = socket.create_server(("127.0.0.1", 0))
        self.port = self._door.getsockname()[1]
        self.plan: list[str] = []  # what happens to the next messages of the bot; empty: nothing
        self.holds = False  # nothing goes through, and nobody is told
        self.chance: Callable[[], str] = lambda: ""  # what happens to any other message
        self.sent: list[bytes] = []  # messages of the bot with words
        self.typed = 0
        self.searches = 0  # of the bot, in archives, from the end
        self.opened = 0
        self.edit: Callable[[bytes], bytes | None] = lambda stanza: stanza  # what the bot hears
        self._after = False
        self._pairs: list[tuple[socket.socket, socket.socket]] = []
        self._threads = [threading.Thread(target=self._accept, daemon=True)]
        self._threads[0].start()

    def __enter__(self) -> "XmppProxy":
        return self

    def __exit__(self, *_: object) -> None:
        try:
            self._door.shutdown(socket.SHUT_RDWR)
        except OSError:
            pass
        self._door.close()
        self.cut()
        for thread in self._threads:
            thread.join(5)

    def cut(self) -> None:
        pairs, self._pairs = self._pairs, []
        for end in (end for pair in pairs for end in pair):
            try:
                end.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass

    def count_open(self) -> int:
        return len(self._pairs)

    def tell(self, stanza: bytes) -> None:
        """To the bot, as if the server had said it."""
        for bot, _ in self._pairs:
            bot.sendall(stanza)

    def _accept(self) -> None:
        while True:
            try:
                bot, _ = self._door.accept()
            except OSError:
                return
            try:
                server = socket.create_connection(("127.0.0.1", self._upstream), 10)
            except OSError:
                bot.close()
                continue
            server.settimeout(None)
            self.opened += 1
            self._after = False
            self._pairs.append((bot, server))
            for start, end, handle in ((bot, server, self._say), (server, bot, self._hear)):
                thread = threading.Thread(target=self._pump, args=(start, end, handle), daemon=True)
                self._threads.append(thread)
                thread.start()

    def _pump(self, start: socket.socket, end: socket.socket, handle: Callable[[bytes], bytes | None]) -> None:
        splitter = _Splitter()
        try:
            while data := start.recv(65536):
                for stanza in splitter.feed(data):
                    passed = None if self.holds else handle(stanza)
                    if passed is not None:
                        end.sendall(passed)
        except OSError:
            pass
        self._pairs = [pair for pair in self._pairs if start not in pair]
        for one in (start, end):
            try:
                one.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass
        start.close()

    def _say(self, stanza: bytes) -> bytes | None:
        if b"<composing" in stanza:
            self.typed += 1
        if b"urn:xmpp:mam:2" in stanza and b"before" in stanza:
            self.searches += 1
        if not stanza.startswith(b"<message") or b"<body" not in stanza:
            return stanza
        self.sent.append(stanza)
        fault = self.plan.pop(0) if self.plan else self.chance()
        if fault == CUT_BEFORE:
            self.cut()
            return None
        self._after = fault == CUT_AFTER
        return stanza

    def _hear(self, stanza: bytes) -> bytes | None:
        if self._after:  # the server has the message, and the bot is not told
            self._after = False
            self.cut()
            return None
        return self.edit(stanza)


def make_certificates(folder: Path) -> None:
    """An authority (`ca.pem`), and a server that it vouches for."""

    def run(*words: str) -> None:
        subprocess.run(["openssl", *words], cwd=folder, check=True, capture_output=True)

    key = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes")
    run("req", "-x509", *key, "-keyout", "ca.key", "-out", "ca.pem", "-days", "2", "-subj", "/CN=Test CA")
    (folder / "ext").write_text(f"subjectAltName=DNS:{DOMAIN}\n")
    run("req", *key, "-keyout", "server.key", "-out", "server.csr", "-subj", f"/CN={DOMAIN}")
    signed = ("-CA", "ca.pem", "-CAkey", "ca.key", "-CAcreateserial", "-days", "2", "-extfile", "ext")
    run("x509", "-req", "-in", "server.csr", "-out", "server.pem", *signed)
