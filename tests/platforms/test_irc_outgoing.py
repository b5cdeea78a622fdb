"""What waits to go out on IRC: nothing that somebody does there makes an answer wait."""

import asyncio
from pathlib import Path

import pytest
from pretending import HeardCore
from waiting import until

from gateway.platforms.face import Accepted
from gateway.platforms.irc.adapter import IrcAdapter
from gateway.platforms.irc.connection.handshake import ECHO, Introduced
from gateway.platforms.irc.connection.irc_line import read_line
from gateway.platforms.irc.connection.irc_outgoing import MESSAGES_IN_A_ROW, Allowance, LineQueue, QueuedLine
from gateway.platforms.irc.connection.irc_session import IrcSession
from gateway.platforms.irc.irc_books import IrcBooks
from gateway.platforms.irc.irc_watch import IrcWatch
from gateway.platforms.irc.reception import IrcReception
from hermes_base.inbound import Inbound


class Strangers(HeardCore):
    """Nobody was let in, but those who are named."""

    known: frozenset[str] = frozenset()

    async def take(self, inbound: Inbound) -> Accepted:
        self.taken.append(inbound)
        return Accepted(inbound.key("default"), len(self.taken) if inbound.sender in self.known else None)


class Wire:
    """A server that hears and says nothing."""

    def __init__(self) -> None:
        self.written: list[bytes] = []

    async def write(self, data: bytes) -> None:
        self.written.append(data)


async def crowd(core: Strangers, home: Path, messages: int) -> list[bytes]:
    """What waits after so many messages, each under another nick."""
    found = Introduced("hermes", "hermes", frozenset({"account-tag", ECHO}), {"MONITOR": "100"})
    adapter = IrcAdapter("irc", {}, home)
    adapter._books = IrcBooks("irc", "hermes", {})
    reception = adapter._reception = IrcReception(core, adapter._tell, adapter._follow)
    watch = adapter._watch = IrcWatch(
        adapter._books, reception, lambda _: None, list, adapter._note_invitation, adapter._note_change
    )
    adapter._core = core
    session = IrcSession(Wire(), found, watch.take, 2.0)  # type: ignore[arg-type]
    watch.begin(session, {})
    for number in range(messages):
        watch.take(read_line(f"@account=bob;msgid=m{number} :x{number}!u@h PRIVMSG hermes :hi".encode()))
        await asyncio.sleep(0)
    await until(lambda: len(core.taken) == messages)
    await reception.close()
    waiting = []
    while (line := session._queue.pick()) is not None:
        session._queue.take(line)
        waiting.append(line.data)
    return waiting


def test_strangers_leave_nothing_in_the_queue(tmp_path: Path) -> None:
    """Somebody who was not let in changes their nick and writes, again and again."""
    assert asyncio.run(crowd(Strangers(), tmp_path, 300)) == []


def test_who_was_let_in_is_followed_within_bounds(tmp_path: Path) -> None:
    core = Strangers()
    core.known = frozenset({"bob"})
    waiting = asyncio.run(crowd(core, tmp_path, 300))
    assert waiting[0].startswith(b"MONITOR + ")
    assert len(waiting) <= 5


def test_an_answer_goes_before_all_house_keeping() -> None:
    """However much of it waits, and also when it comes while a line waits for its time."""

    async def steps() -> list[bytes]:
        wire = Wire()
        found = Introduced("hermes", "hermes", frozenset({ECHO}), {})
        session = IrcSession(wire, found, lambda _: None, 0.05)  # type: ignore[arg-type]
        for number in range(50):
            session.put_chore(b"JOIN #%d\r\n" % number)
        writing = asyncio.create_task(session._write_on())
        await until(lambda: len(wire.written) > 2)
        saying = asyncio.create_task(session.say("Ann", "It is done.", {}))
        await asyncio.sleep(0)  # it waits from here on
        before = len(wire.written)
        await until(lambda: len(wire.written) > before)
        for task in (writing, saying):
            task.cancel()
        await asyncio.gather(writing, saying, return_exceptions=True)
        return wire.written[before:]

    assert asyncio.run(steps())[0] == b"PRIVMSG Ann :It is done.\r\n"


def test_a_chore_waits_once_and_gets_its_share() -> None:
    queue = LineQueue()
    for _ in range(100):
        queue.put_chore(b"NICK hermes\r\n")
    for number in range(20):
        queue.put_message(QueuedLine(b"%d" % number))
    assert len(queue) == 21
    gone = []
    while (line := queue.pick()) is not None:
        queue.take(line)
        gone.append(line.data)
    assert gone.index(b"NICK hermes\r\n") == MESSAGES_IN_A_ROW
    assert [data for data in gone if data.isdigit()] == [b"%d" % number for number in range(20)]


@pytest.mark.parametrize(("lines", "wait"), [(1, 0.0), (2, 0.0), (3, 2.0), (5, 6.0)])
def test_lines_go_at_a_pace(lines: int, wait: float) -> None:
    allowance = Allowance(2.0, now=0.0)
    assert allowance.find_wait(0.0, lines) == wait
    assert allowance.find_wait(wait, lines) == 0.0
