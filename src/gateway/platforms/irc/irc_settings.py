"""What the settings of an account say, checked. Only certificates are read, when a line is opened."""

import os
import re
import ssl
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from gateway.platforms.irc.connection.irc_line import is_name
from hermes_base.errors import ConfigProblem
from hermes_constants.ordinary_files import expand_home

TLS_PORT, PLAIN_PORT = 6697, 6667
DEFAULT_NICK = "hermes"
USUAL_LINE_SECONDS, MOST_LINE_SECONDS = 2.0, 60.0
MESSAGE_SHARE = 0.9  # of our lines: some are no messages
_SERVER = re.compile(r"(?:\[([0-9A-Fa-f:.]+)\]|([^\s:/\[\]]+))(?::([0-9]{1,5}))?")


@dataclass(frozen=True, slots=True)
class IrcSettings:
    host: str
    port: int
    nick: str
    login: str
    password: str = field(repr=False)
    tls: bool = True
    ca_file: str = ""
    cert_file: str = ""
    channels: Mapping[str, str] = field(default_factory=dict)  # name -> key
    line_seconds: float = USUAL_LINE_SECONDS

    @property
    def logs_in(self) -> bool:
        return bool(self.password or self.cert_file)


def read_settings(settings: Mapping[str, Any]) -> IrcSettings:
    """The settings; ConfigProblem for what will not do."""
    tls = str(settings.get("tls", True)).lower() not in ("false", "no", "off", "0")
    host, port = _read_server(str(settings.get("server") or "").strip(), TLS_PORT if tls else PLAIN_PORT)
    nick = str(settings.get("nick") or DEFAULT_NICK).strip()
    login = str(settings.get("login") or nick).strip()
    for name, value in (("nick", nick), ("login", login)):
        if not is_name(value):
            raise ConfigProblem(f"platforms.irc.{name} is '{value}'.", fix="It is one word, like hermes.")
    cert = str(settings.get("cert_file") or "")
    if cert and not tls:
        raise ConfigProblem("A certificate proves nothing without TLS.", fix="Take platforms.irc.tls: false away.")
    return IrcSettings(
        host,
        port,
        nick,
        login,
        str(settings.get("password") or ""),
        tls,
        str(settings.get("ca_file") or ""),
        cert,
        _read_channels(settings.get("channels")),
        _read_line_seconds(settings.get("line_seconds")),
    )


def find_pace(settings: Mapping[str, Any]) -> float:
    """Messages in a second. What is no number is told when it connects."""
    try:
        return MESSAGE_SHARE / _read_line_seconds(settings.get("line_seconds"))
    except ConfigProblem:
        return MESSAGE_SHARE / USUAL_LINE_SECONDS


def _read_line_seconds(value: Any) -> float:
    try:
        seconds = USUAL_LINE_SECONDS if value in (None, "") else float(value)
    except (TypeError, ValueError):
        seconds = 0.0
    if not 0.0 < seconds <= MOST_LINE_SECONDS:
        raise ConfigProblem(
            f"platforms.irc.line_seconds is '{value}'.",
            fix=f"It is a number of seconds up to {MOST_LINE_SECONDS:.0f}; without it {USUAL_LINE_SECONDS:.0f}.",
        )
    return seconds


def _read_server(text: str, usual: int) -> tuple[str, int]:
    found = _SERVER.fullmatch(text)
    port = int(found[3] or usual) if found else 0
    if not found or not 0 < port < 65536:
        raise ConfigProblem(
            "IRC has no server." if not text else f"platforms.irc.server is '{text}'.",
            fix="Write it like irc.example.org or irc.example.org:6697, or run `hermes setup irc`.",
        )
    return found[1] or found[2], port


def _read_channels(value: Any) -> dict[str, str]:
    """A list, or one text with commas; each is a name, and a key behind it where the channel has one."""
    every = value if isinstance(value, list | tuple) else str(value or "").split(",")
    channels = {}
    for entry in filter(None, (str(one).strip() for one in every)):
        name, _, key = entry.partition(" ")
        key = key.strip()
        if name[0] not in "#&+!" or not is_name(name) or (key and not is_name(key)):
            raise ConfigProblem(
                f"platforms.irc.channels holds '{name}', which is no channel.", fix="Write it like #ops, or #ops KEY."
            )
        channels[name] = key
    return channels


def make_context(settings: IrcSettings) -> ssl.SSLContext | None:
    """How the line is encrypted; None: not at all. Reads files: no work for the event loop."""
    if not settings.tls:
        return None
    for name, file in (("ca_file", settings.ca_file), ("cert_file", settings.cert_file)):
        if file and not os.path.isfile(expand_home(file)):
            raise ConfigProblem(f"platforms.irc.{name} names {file}, which is no file.", fix="Correct the path.")
    try:
        context = ssl.create_default_context(cafile=expand_home(settings.ca_file) if settings.ca_file else None)
        if settings.cert_file:
            context.load_cert_chain(expand_home(settings.cert_file))
    except (ssl.SSLError, OSError) as problem:
        raise ConfigProblem(
            f"A certificate of platforms.irc cannot be read: {problem}.", fix="It is a file in PEM form."
        ) from None
    return context
