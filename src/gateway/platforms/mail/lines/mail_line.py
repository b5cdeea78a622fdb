"""A line to a mail server, and what can go wrong with one, in sentences. Both protocols speak in lines, and both may
begin TLS in the middle."""

import asyncio
import contextlib
import ssl
from enum import StrEnum

from gateway.platforms.mail.mail_servers import MailServer

CONNECT_SECONDS, WRITE_SECONDS, CLOSE_SECONDS = 10.0, 30.0, 2.0
LONGEST_LINE = 1 << 20
PIECE = 64 << 10  # bytes that are handed to the line at once
LOGIN_FAILED = "The mail server does not take the name and the password: one of them is wrong, or it was revoked."
LOGIN_FIX = "Where there are app passwords it has to be one. Run `hermes setup mail`."
BROKEN = "The line to the mail server broke."
SILENT = "The mail server does not answer any more."


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

    def __init__(self, kind: MailTroubleKind, text: str, fix: str = "", *, code: str = "") -> None:
        super().__init__(text)
        self.kind = kind
        self.text = text
        self.fix = fix
        self.code = code  # of an IMAP server that refuses, such as UNAVAILABLE

    @property
    def sentence(self) -> str:
        """For the owner."""
        if self.kind in OWNERS:
            return f"{self.text} {self.fix}".strip()
        return f"{self.text} It is tried again; mail waits on the server meanwhile."


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


class MailLine:
    """One connection. Threads: the event loop's only."""

    def __init__(self, server: MailServer, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.server = server
        self._reader = reader
        self._writer = writer

    async def close(self) -> None:
        self._writer.close()
        with contextlib.suppress(OSError, TimeoutError):
            async with asyncio.timeout(CLOSE_SECONDS):
                await self._writer.wait_closed()

    async def begin_tls(self, tls: ssl.SSLContext) -> None:
        """What the server says before it is not believed: somebody on the way may have added it."""
        try:
            async with asyncio.timeout(0):
                early = await self._reader.read(1)
        except TimeoutError:
            early = b""
        if early:
            raise MailTrouble(
                MailTroubleKind.CERTIFICATE, f"{self.server.host} says more than it may before TLS begins."
            )
        try:
            async with asyncio.timeout(CONNECT_SECONDS):
                await self._writer.start_tls(tls, server_hostname=self.server.host)
        except OSError as error:
            raise read_failure(error, self.server) from None

    async def write(self, data: bytes, seconds: float = WRITE_SECONDS) -> None:
        """In pieces, each when the line has room for it: a long mail holds up nobody."""
        try:
            async with asyncio.timeout(seconds):
                for at in range(0, len(data), PIECE):
                    self._writer.write(data[at : at + PIECE])
                    await self._writer.drain()
        except OSError:
            raise MailTrouble(MailTroubleKind.CUT, BROKEN) from None

    async def read_line(self) -> bytes:
        """One line without its end."""
        try:
            return (await self._reader.readuntil(b"\n")).rstrip(b"\r\n")
        except (OSError, EOFError, asyncio.LimitOverrunError):
            raise MailTrouble(MailTroubleKind.CUT, BROKEN) from None

    async def read_bytes(self, size: int) -> bytes:
        try:
            return await self._reader.readexactly(size)
        except (OSError, EOFError):
            raise MailTrouble(MailTroubleKind.CUT, BROKEN) from None


async def open_streams(server: MailServer, tls: ssl.SSLContext) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    """A connection, with TLS where that begins with the first byte; MailTrouble when there is none."""
    try:
        async with asyncio.timeout(CONNECT_SECONDS):
            return await asyncio.open_connection(
                server.host, server.port, ssl=tls if server.tls else None, limit=LONGEST_LINE
            )
    except OSError as error:
        raise read_failure(error, server) from None


def say_on_one_line(text: str) -> str:
    """A server's own words, for a sentence of ours."""
    shown = "".join(char if char.isprintable() else " " for char in text)
    return " ".join(shown.split())[:200].rstrip(".") or "without a word"
