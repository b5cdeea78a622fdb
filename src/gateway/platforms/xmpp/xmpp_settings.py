"""What the settings say of an XMPP account, and how its line is encrypted."""

import os
import re
import ssl
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from gateway.platforms.account_settings import PRIVATE
from gateway.platforms.xmpp.refusals import SET_UP
from gateway.platforms.xmpp.xmpp_xml import read_typed
from hermes_base.errors import ConfigProblem
from hermes_constants.ordinary_files import expand_home
from hermes_net.address_rules import AddressRules, is_public, read_numeric, read_rules
from hermes_net.lookup import look_up

PORT, DIRECT_TLS_PORT = 5222, 5223
_SERVER = re.compile(r"(?:\[([0-9A-Fa-f:]+)\]|([^\s:/]+))(?::([0-9]{1,5}))?")
_LOCAL_NAMES = frozenset({"localhost", "localhost.localdomain", "ip6-localhost"})


@dataclass(frozen=True, slots=True)
class XmppSettings:
    jid: str  # bare
    password: str
    host: str  # empty: the domain's DNS says it
    port: int
    tls: bool
    ca_file: str
    resource: str
    nick: str
    rooms: Mapping[str, str] = field(default_factory=dict)  # by room: its password, or nothing
    room_servers: frozenset[str] = frozenset()
    edits: bool = True
    rules: AddressRules = field(default_factory=AddressRules)

    @property
    def domain(self) -> str:
        return self.jid.partition("@")[2]

    @property
    def place(self) -> str:
        """The server, for a sentence."""
        return f"{self.host}:{self.port}" if self.host else self.domain

    def trusts_room(self, room: str) -> bool:
        """Whether this room's server may say who is who: our own may, and those that the owner has named. Any other
        could claim that somebody there is the owner, and so could an account beside ours that plays a room."""
        service = room.partition("@")[2]
        trusted = service.endswith(f".{self.domain}") or room in self.rooms or service in self.room_servers
        return trusted and service != self.domain


def read_settings(settings: Mapping[str, Any]) -> XmppSettings:
    """ConfigProblem for settings that will not do."""
    text = {name: str(settings.get(name) or "").strip() for name in ("jid", "server", "ca_file", "resource", "nick")}
    jid, password = read_typed(text["jid"]), str(settings.get("password") or "")
    if not text["jid"] or not password:
        raise ConfigProblem("XMPP has no address, or no password for it.", fix=SET_UP)
    if "@" not in jid:
        raise ConfigProblem(
            f"'{text['jid']}' is no XMPP address.", fix="platforms.xmpp.jid is one like hermes@example.org."
        )
    tls = settings.get("tls") is not False and str(settings.get("tls")).lower() not in ("false", "no", "off")
    host, port = _read_server(text["server"])
    return XmppSettings(
        jid,
        password,
        host,
        port,
        tls,
        text["ca_file"],
        text["resource"] or "hermes",
        text["nick"] or jid.partition("@")[0],
        _read_rooms(settings.get("rooms"), jid.partition("@")[2]),
        frozenset(read_typed(server) for server in _read_list(settings.get("room_servers"))),
        settings.get("edits") is not False,
        read_rules(_read_list(settings.get(PRIVATE))),
    )


def _read_server(text: str) -> tuple[str, int]:
    if not text:
        return "", PORT
    found = _SERVER.fullmatch(text)
    port = int(found[3] or PORT) if found else 0
    if found is None or not 0 < port < 65536:
        raise ConfigProblem(
            f"platforms.xmpp.server is '{text}'.",
            fix="Write it like xmpp.example.org or xmpp.example.org:5222, or run `hermes setup xmpp`.",
        )
    return found[1] or found[2], port


def _read_list(value: Any) -> list[str]:
    every = value if isinstance(value, list | tuple) else str(value or "").split(",")
    return [entry for entry in (str(one).strip() for one in every) if entry]


def _read_rooms(value: Any, domain: str) -> dict[str, str]:
    """A list, or one text with commas; each is an address, and a password behind it where the room has one."""
    rooms = {}
    for entry in _read_list(value):
        name, _, password = entry.partition(" ")
        room = read_typed(name)
        if "@" not in room:
            raise ConfigProblem(
                f"platforms.xmpp.rooms holds '{name}', which is no room.",
                fix="Write it like plans@rooms.example.org, or with its password behind it.",
            )
        if room.partition("@")[2] == domain:
            raise ConfigProblem(
                f"platforms.xmpp.rooms holds '{name}', which is somebody's address and no room.",
                fix=f"Rooms are on a service of their own, like plans@rooms.{domain}.",
            )
        rooms[room] = password.strip()
    return rooms


async def check_plain(settings: XmppSettings) -> None:
    """A line that is not encrypted goes to this machine or its own network, and nowhere else. OSError: nobody knows
    where the server is, as happens while there is no network."""
    host = settings.host or settings.domain
    if settings.tls or host in _LOCAL_NAMES:
        return
    numeric = read_numeric(host)
    found = [numeric] if numeric is not None else await look_up(host, settings.port)
    if any(is_public(address) for address in found):
        raise ConfigProblem(
            f"platforms.xmpp.tls is false, and {host} is not in a network of your own.",
            kept="Nothing was sent there.",
            fix="Take the setting out: the password and every message would go over the open net.",
        )


def make_context(settings: XmppSettings) -> ssl.SSLContext:
    """How the line is encrypted. Reads files: no work for the event loop."""
    file = expand_home(settings.ca_file) if settings.ca_file else None
    if file and not os.path.isfile(file):
        raise ConfigProblem(
            f"platforms.xmpp.ca_file names {settings.ca_file}, which is no file.", fix="Correct the path."
        )
    try:
        context = ssl.create_default_context(cafile=file)
    except (ssl.SSLError, OSError) as problem:
        raise ConfigProblem(
            f"The certificate of platforms.xmpp.ca_file cannot be read: {problem}.", fix="It is a file in PEM form."
        ) from None
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    return context
