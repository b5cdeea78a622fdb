"""Connects once and says who we are there, for whoever sets the nick up."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from gateway.platforms.account_settings import CONNECTED
from gateway.platforms.id_forms import refuse_own
from gateway.platforms.irc import SPEC
from gateway.platforms.irc.connection.handshake import ECHO, Introduced
from gateway.platforms.irc.connection.irc_stream import introduce
from gateway.platforms.irc.irc_settings import IrcSettings, read_settings
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
    refuse_own(SPEC.person_ids, settings, found.account)
    return describe(read, found, is_ours=settings.get(CONNECTED) is True)


def describe(settings: IrcSettings, found: Introduced, *, is_ours: bool = False) -> str:
    """`is_ours`: the gateway is connected with this account, and has the nick."""
    network = found.supports.get("NETWORK", settings.host)
    who = f"logged in as {found.account}" if found.account else "not logged in to an account of its own"
    line = "encrypted" if settings.tls else "not encrypted"
    proof = "each message is confirmed" if ECHO in found.caps else "messages are confirmed by a question behind them"
    taken = "" if is_ours or found.nick == settings.nick else f" (the nick {settings.nick} is taken)"
    nick = settings.nick if is_ours else found.nick
    return f"It is {nick} on {network}, {who}{taken}; the line is {line}, and {proof}."
