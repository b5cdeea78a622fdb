"""The settings of a mailbox, and what can go wrong between it and us, in sentences."""

import ipaddress
import ssl
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any
from urllib.parse import urlsplit

from gateway.platforms.mail.sender_proof import read_address
from hermes_base.errors import ConfigProblem

#: By the scheme of the address: the usual port, and whether TLS begins with the first byte.
_SCHEMES = {"imaps": (993, True), "imap": (143, False), "smtps": (465, True), "smtp": (587, False)}
SET_UP = "Run `hermes setup mail`."
LOGIN_FAILED = "The mail server does not take the name and the password: one of them is wrong, or it was revoked."
LOGIN_FIX = "Where there are app passwords it has to be one. Run `hermes setup mail`."


class MailTroubleKind(StrEnum):
    LOGIN = "login"  # name or password
    CERTIFICATE = "certificate"  # it is not who it should be, or speaks no TLS
    UNREACHED = "unreached"  # no connection was made
    REFUSED = "refused"  # it said no
    CUT = "cut"  # it broke off, or said nothing in time


#: What the owner of the machine can put right.
OWNERS = frozenset({MailTroubleKind.LOGIN, MailTroubleKind.CERTIFICATE})


class MailTrouble(Exception):
    """A talk with a server that came to nothing. The text is free of the password."""

    def __init__(self, kind: MailTroubleKind, text: str, fix: str = "") -> None:
        super().__init__(text)
        self.kind = kind
        self.text = text
        self.fix = fix

    @property
    def sentence(self) -> str:
        """For the owner."""
        if self.kind in OWNERS:
            return f"{self.text} {self.fix}".strip()
        return f"{self.text} It is tried again; mail waits on the server meanwhile."


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


def read_failure(error: BaseException, server: MailServer) -> MailTrouble:
    """Why no connection was made."""
    if isinstance(error, ssl.SSLCertVerificationError):
        return MailTrouble(
            MailTroubleKind.CERTIFICATE,
            f"The certificate of {server.host} is not trusted: {error.verify_message}.",
            "Check the name of the server; for an authority of your own set platforms.mail.ca_file.",
        )
    if isinstance(error, ssl.SSLError):
        return MailTrouble(
            MailTroubleKind.CERTIFICATE,
            f"{server.host} does not speak TLS on port {server.port} ({error.reason or 'no handshake'}).",
            "With STARTTLS the address begins with imap:// or smtp://, with TLS with imaps:// or smtps://.",
        )
    why = "it does not answer" if isinstance(error, TimeoutError) else getattr(error, "strerror", None) or "it hung up"
    return MailTrouble(MailTroubleKind.UNREACHED, f"{server.host} cannot be reached on port {server.port}: {why}.")


def make_unencrypted(server: MailServer) -> MailTrouble:
    return MailTrouble(
        MailTroubleKind.CERTIFICATE,
        f"{server.host} offers no STARTTLS on port {server.port}, and without it the password would be read by others.",
        "Use imaps:// or smtps://, or another port.",
    )
