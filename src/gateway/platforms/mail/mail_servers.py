"""The settings of a mailbox: who it is, and the two servers that have it."""

import ipaddress
import ssl
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

from gateway.platforms.mail.sender_proof import read_address
from hermes_base.errors import ConfigProblem

#: By the scheme of the address: the usual port, and whether TLS begins with the first byte.
_SCHEMES = {"imaps": (993, True), "imap": (143, False), "smtps": (465, True), "smtp": (587, False)}
SET_UP = "Run `hermes setup mail`."


@dataclass(frozen=True, slots=True)
class MailServer:
    host: str
    port: int
    tls: bool  # from the first byte; else by STARTTLS

    @property
    def is_this_machine(self) -> bool:
        """Only there nobody can listen, and TLS may be left out."""
        try:
            return ipaddress.ip_address(self.host).is_loopback
        except ValueError:
            return self.host == "localhost"


@dataclass(frozen=True, slots=True)
class MailAccount:
    """A mailbox, as the settings describe it."""

    address: str
    user: str
    password: str
    imap: MailServer
    smtp: MailServer
    authserv_id: str
    ca_file: str = ""
    mailbox: str = "INBOX"
    name: str = "Hermes"

    @property
    def domain(self) -> str:
        return self.address.rpartition("@")[2]


def read_account_settings(settings: Mapping[str, Any]) -> MailAccount:
    """The account; ConfigProblem for what is missing or will not do."""
    address = read_address(_read(settings, "address"))
    if address is None:
        raise ConfigProblem("E-mail has no address of its own that is one.", fix=SET_UP)
    password = str(settings.get("password") or "")
    if not password or any(char in password for char in "\r\n\0"):
        raise ConfigProblem("E-mail has no password.", fix=f"{SET_UP} It is kept as MAIL_PASSWORD in .env.")
    return MailAccount(
        address,
        _read(settings, "user") or address,
        password,
        read_server(_read(settings, "imap"), "imap"),
        read_server(_read(settings, "smtp"), "smtp"),
        _read(settings, "authserv_id").lower(),
        _read(settings, "ca_file"),
        _read(settings, "mailbox") or "INBOX",
        _read(settings, "name") or "Hermes",
    )


def _read(settings: Mapping[str, Any], key: str) -> str:
    return str(settings.get(key) or "").strip()


def read_server(text: str, kind: str) -> MailServer:
    """`imaps://host:port` and the like; a host alone is taken with TLS."""
    url = urlsplit(text if "://" in text else f"{kind}s://{text}")
    try:
        port = url.port
    except ValueError:
        port = -1
    scheme = _SCHEMES.get(url.scheme) if url.scheme.startswith(kind) else None
    if scheme is None or not url.hostname or port == -1 or url.path.strip("/") or url.username or url.query:
        raise ConfigProblem(
            f"platforms.mail.{kind} is no address of a server.",
            fix=f"Write it like {kind}s://host (TLS) or {kind}://host (STARTTLS).",
        )
    return MailServer(url.hostname, port or scheme[0], scheme[1])


def make_tls(account: MailAccount) -> ssl.SSLContext:
    """Reads certificates: no work for the event loop."""
    try:
        return ssl.create_default_context(cafile=account.ca_file or None)
    except OSError as error:
        raise ConfigProblem(
            f"The certificates in platforms.mail.ca_file cannot be read: {error.strerror or type(error).__name__}.",
            fix="It is a PEM file with the certificate of your authority.",
        ) from error
