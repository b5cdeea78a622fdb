"""Connects once and says who we are there, for whoever sets the nick up."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from gateway.platforms.irc.handshake import ECHO, Introduced
from gateway.platforms.irc.irc_settings import IrcSettings, read_settings
from gateway.platforms.irc.irc_stream import introduce
from hermes_base.errors import ConfigProblem, DeliveryFailure


async def probe(settings: Mapping[str, Any], home: Path) -> str:
    """Which nick and account it is, in a sentence; ConfigProblem when that cannot be found out."""
    del home
    read = read_settings(settings)
    try:
        stream, found = await introduce(read)
    except DeliveryFailure as problem:
        raise ConfigProblem(f"IRC cannot be asked: {problem}", fix="Check the server, and try again.") from None
    await stream.close(farewell=True)
    return describe(read, found)


def describe(settings: IrcSettings, found: Introduced) -> str:
    network = found.supports.get("NETWORK", settings.host)
    who = f"logged in as {found.account}" if found.account else "not logged in to an account of its own"
    line = "encrypted" if settings.tls else "not encrypted"
    proof = "each message is confirmed" if ECHO in found.caps else "messages are confirmed by a question behind them"
    taken = "" if found.nick == settings.nick else f" (the nick {settings.nick} is taken)"
    return f"It is {found.nick} on {network}, {who}{taken}; the line is {line}, and {proof}."
