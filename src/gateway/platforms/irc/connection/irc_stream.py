"""A connection to a server: bytes out, lines in, encrypted unless the settings say otherwise."""

import asyncio
import contextlib
import ssl
from collections.abc import AsyncIterator

from gateway.platforms.call_errors import describe_call_error
from gateway.platforms.face import NotNow
from gateway.platforms.irc.connection.handshake import Handshake, Introduced
from gateway.platforms.irc.connection.irc_line import IrcLine, read_line, write_line
from gateway.platforms.irc.irc_settings import IrcSettings, make_context
from hermes_base.errors import ConfigProblem, DeliveryFailure

CONNECT_SECONDS, HANDSHAKE_SECONDS, CLOSE_SECONDS = 15.0, 40.0, 2.0
TLS_SECONDS = 10.0  # less than the whole, so that a port without TLS is told from a server that is not there
UNREACHED_SECONDS = 3.0
NO_TLS = (
    "{}:{} takes the connection, but does not begin TLS. Check the port (6697 is usual); platforms.irc.tls: false goes "
    "without encryption."
)
MOST_LINE_BYTES = 65_536  # tags and all; nobody sends more
_CUTS = (OSError, EOFError, asyncio.LimitOverrunError)


class IrcStream:
    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer

    async def read(self) -> IrcLine | None:
        """The next line; None: one with nothing in it. DeliveryFailure when there is no more."""
        try:
            data = await self._reader.readuntil(b"\n")
        except _CUTS as error:
            raise DeliveryFailure(f"the line broke off ({type(error).__name__})") from None
        return read_line(data.rstrip(b"\r\n"))

    async def write(self, data: bytes) -> None:
        try:
            self._writer.write(data)
            await self._writer.drain()
        except OSError as error:
            raise DeliveryFailure(f"the line broke off ({type(error).__name__})") from None

    def write_soon(self, data: bytes) -> None:
        """Without waiting for a server that does not read."""
        self._writer.write(data)

    def cut(self) -> None:
        self._writer.transport.abort()

    async def close(self, farewell: bool = False) -> None:
        """`farewell`: the server hears that we go."""
        with contextlib.suppress(OSError, TimeoutError):
            async with asyncio.timeout(CLOSE_SECONDS):
                if farewell and not self._writer.is_closing():
                    self._writer.write(write_line("QUIT", "Hermes goes."))
                    await self._writer.drain()
                self._writer.close()
                await self._writer.wait_closed()
        self.cut()


async def open_stream(settings: IrcSettings) -> IrcStream:
    """A connection; ConfigProblem for a certificate that is not trusted, NotNow where nobody answers."""
    context = await asyncio.to_thread(make_context, settings)
    try:
        async with asyncio.timeout(CONNECT_SECONDS):
            reader, writer = await asyncio.open_connection(
                settings.host,
                settings.port,
                ssl=context,
                ssl_handshake_timeout=TLS_SECONDS if context else None,
                limit=MOST_LINE_BYTES,
            )
    except ssl.SSLCertVerificationError as error:
        raise ConfigProblem(
            f"The certificate of {settings.host} is not trusted: {error.verify_message}.",
            fix="Name your own authority in platforms.irc.ca_file, or use the name that the certificate is for.",
        ) from None
    except ssl.SSLError as error:
        raise ConfigProblem(
            f"{settings.host}:{settings.port} does not speak TLS as we do ({error.reason}).",
            fix="Check the port; platforms.irc.tls: false goes without encryption.",
        ) from None
    except ConnectionAbortedError:  # so the event loop ends a handshake that takes too long
        raise NotNow(NO_TLS.format(settings.host, settings.port), UNREACHED_SECONDS, whole_account=True) from None
    except (OSError, TimeoutError) as error:
        why = describe_call_error(error)
        raise NotNow(f"{settings.host} cannot be reached: {why}.", UNREACHED_SECONDS, whole_account=True) from None
    return IrcStream(reader, writer)


@contextlib.asynccontextmanager
async def _closing_on_failure(stream: IrcStream) -> AsyncIterator[None]:
    try:
        yield
    except BaseException:
        await stream.close()
        raise


async def introduce(settings: IrcSettings) -> tuple[IrcStream, Introduced]:
    """A connection that has said who we are; it is closed again when that fails."""
    stream, handshake = await open_stream(settings), Handshake(settings)
    async with _closing_on_failure(stream):
        try:
            async with asyncio.timeout(HANDSHAKE_SECONDS):
                for data in handshake.begin():
                    await stream.write(data)
                while not handshake.done:
                    line = await stream.read()
                    for data in handshake.take(line) if line else []:
                        await stream.write(data)
        except TimeoutError:
            raise NotNow(f"{settings.host} does not let us in in time.", UNREACHED_SECONDS) from None
    return stream, handshake.found
