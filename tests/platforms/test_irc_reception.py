"""IRC brings nothing twice: what cannot be stored is kept, and in the end whoever waits for an answer is told."""

import asyncio
from typing import Any

import pytest
from pretending import HeardCore
from waiting import until

from gateway.platforms.irc import reception as irc_reception
from gateway.platforms.irc.reception import NOT_STORED, TRIES, IrcReception
from hermes_base.inbound import Address, Inbound


def make_message(number: str, kind: str, **more: Any) -> Inbound:
    return Inbound(Address("irc", "bot", "#ops" if kind == "group" else "ann", kind), number, "ann", number, **more)


def test_what_is_never_stored_is_told_to_whom_it_was_meant_for_us(monkeypatch: pytest.MonkeyPatch) -> None:
    """C2: once for a chat. Who spoke to others in a channel hears nothing of it."""
    monkeypatch.setattr(irc_reception, "RETRY_SECONDS", 0.0)
    told: list[tuple[str, str]] = []

    async def run() -> None:
        core = HeardCore()
        reception = IrcReception(core, lambda inbound, reason: told.append((inbound.message, reason)))
        core.failures = 4 * TRIES
        reception.put(make_message("chatter", "group"))
        reception.put(make_message("to us", "group", mentioned=True))
        reception.put(make_message("to us again", "group", mentioned=True))
        reception.put(make_message("alone", "dm"))
        reception.put(make_message("stored", "dm"))
        await until(lambda: [inbound.text for inbound in core.taken] == ["stored"])
        await reception.close()

    asyncio.run(run())
    assert told == [("to us", NOT_STORED), ("alone", NOT_STORED)]


def test_a_store_that_comes_back_in_time_loses_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """C1, C3."""
    monkeypatch.setattr(irc_reception, "RETRY_SECONDS", 0.0)

    async def run() -> None:
        core = HeardCore()
        reception = IrcReception(core, lambda inbound, reason: pytest.fail(reason))
        core.failures = TRIES - 1
        for number in ("one", "two"):
            reception.put(make_message(number, "group"))
        await until(lambda: [inbound.text for inbound in core.taken] == ["one", "two"])
        await reception.close()

    asyncio.run(run())
