"""IRC brings nothing twice: what cannot be stored is kept, and in the end whoever waits for an answer is told."""

import asyncio
from typing import Any

import pytest
from pretending import HeardCore
from waiting import until

from gateway.platforms import chat_lanes
from gateway.platforms.chat_lanes import TRIES
from gateway.platforms.face import Accepted, Refused
from gateway.platforms.irc.reception import NOT_STORED, IrcReception
from hermes_base.errors import StoreFailure
from hermes_base.inbound import Address, Inbound


def make_message(number: str, kind: str, **more: Any) -> Inbound:
    return Inbound(Address("irc", "bot", "#ops" if kind == "group" else "ann", kind), number, "ann", number, **more)


def test_what_is_never_stored_is_told_to_whom_it_was_meant_for_us(monkeypatch: pytest.MonkeyPatch) -> None:
    """C2: once for a chat. Who spoke to others in a channel hears nothing of it."""
    monkeypatch.setattr(chat_lanes, "RETRY_SECONDS", 0.0)
    told: list[tuple[str, str]] = []

    class OddCore(HeardCore):
        async def take(self, inbound: Inbound) -> Accepted | Refused:
            if inbound.text != "stored":
                raise OSError("the disk is full")
            return await super().take(inbound)

    async def run() -> None:
        core = OddCore()
        reception = IrcReception(core, lambda inbound, reason: told.append((inbound.message, reason)), lambda _: None)
        reception.put(make_message("chatter", "group"))
        reception.put(make_message("to us", "group", mentioned=True))
        reception.put(make_message("to us again", "group", mentioned=True))
        reception.put(make_message("alone", "dm"))
        reception.put(make_message("stored", "dm"))
        await until(lambda: [inbound.text for inbound in core.taken] == ["stored"] and len(told) == 2)
        await reception.close()

    asyncio.run(run())
    assert sorted(told) == [("alone", NOT_STORED), ("to us", NOT_STORED)]


def test_while_the_store_fails_a_channel_holds_up_nobody_else(monkeypatch: pytest.MonkeyPatch) -> None:
    """C2, G1: what was said there is kept until it can be stored, however long that takes, and nobody is told."""
    monkeypatch.setattr(chat_lanes, "RETRY_SECONDS", 0.0)

    class FailingCore(HeardCore):
        is_down, tries = True, 0

        async def take(self, inbound: Inbound) -> Accepted | Refused:
            self.tries += 1
            if self.is_down and inbound.address.kind == "group":
                raise StoreFailure("The store does not answer.")
            return await super().take(inbound)

    async def run() -> None:
        core = FailingCore()
        reception = IrcReception(core, lambda inbound, reason: pytest.fail(reason), lambda _: None)
        reception.put(make_message("chatter", "group"))
        reception.put(make_message("to us", "group", mentioned=True))
        reception.put(make_message("alone", "dm"))
        await until(lambda: [inbound.text for inbound in core.taken] == ["alone"] and core.tries > 2 * TRIES)
        core.is_down = False
        await until(lambda: [inbound.text for inbound in core.taken] == ["alone", "chatter", "to us"])
        await reception.close()

    asyncio.run(run())


def test_a_store_that_comes_back_in_time_loses_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """C1, C3."""
    monkeypatch.setattr(chat_lanes, "RETRY_SECONDS", 0.0)

    async def run() -> None:
        core = HeardCore()
        reception = IrcReception(core, lambda inbound, reason: pytest.fail(reason), lambda _: None)
        core.failures = TRIES - 1
        for number in ("one", "two"):
            reception.put(make_message(number, "group"))
        await until(lambda: [inbound.text for inbound in core.taken] == ["one", "two"])
        await reception.close()

    asyncio.run(run())
