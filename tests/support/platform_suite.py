"""What every adapter must do. A platform's test makes a `Rig` and a class that inherits `PlatformSuite`."""

import asyncio
import itertools
import logging
import threading
import time
import traceback
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from pretending import QUICK, HeardCore, call_off_loop
from waiting import until

from gateway.core.delivery_rules import Pace
from gateway.core.markup.dialects import find_dialect
from gateway.delivery.delivery import Delivery
from gateway.platforms import platform_list
from gateway.platforms.face import Adapter, NeverTaken, NotNow, Part
from hermes_base.errors import ConfigProblem, DeliveryFailure
from hermes_base.inbound import Address, FileRef, Inbound, Outgoing
from hermes_state.sql.store_sql import Store
from hermes_state.sql.turns_sql import TurnStore
from hermes_state.turns import NodeInfo

#: Troubles that a rig may be able to make for the next call. A brief penalty is over in a second or two; a storm is
#: several of them, and edits that are cut off.
PENALTY, REFUSED, CLOSED_BEFORE, CLOSED_AFTER, NOT_STORED, BRIEF_PENALTY, BAD_MARKUP, STORM = (
    "penalty",
    "refused",
    "closed before",
    "closed after",
    "not stored",
    "brief penalty",
    "bad markup",
    "storm",
)
#: What a case may provoke on purpose; any other complaint of the other side fails it.
SAME_TEXT, TOO_LONG = "same text", "length"
TURN = "agent:main:here:dm:c1#1"
_FILLERS = {"chars": "a", "utf16": "🙂", "bytes": "é"}
_SIZES = {"chars": 1, "utf16": 2, "bytes": 2}


class Rig(ABC):
    """An adapter and the other side of it. The suite calls nothing else."""

    adapter: Adapter
    address: Address  # a chat with somebody in it
    sample: str = "first line\nsecond ünï 🙂"  # what a person can say in one message

    async def connect(self) -> None:
        """Connect the adapter to a core of the rig's own; afterwards somebody is in the chat."""
        raise NotImplementedError

    async def disconnect(self) -> None:
        await self.adapter.disconnect()

    @abstractmethod
    async def say(self, text: str) -> None:
        """A person writes."""

    @abstractmethod
    async def repeat(self) -> None:
        """The platform delivers the last message once more, as if nobody had confirmed it."""

    @abstractmethod
    def heard(self) -> list[Inbound]:
        """What the adapter handed over, also what was known already."""

    @abstractmethod
    async def seen(self) -> list[str]:
        """The texts that stand in the chat, in order; of a file its name."""

    def trouble(self, name: str) -> bool:
        """Make the next call meet this; False: this platform cannot be made to."""
        del name
        return False

    # --- what not every platform has; one that returns False or None cannot be made to do it

    secrets: tuple[str, ...] = ()  # what nobody may ever read in a log or an error

    def complaints(self) -> list[str]:
        """The kinds of what the other side does not like about how it was called."""
        return []

    def count_calls(self) -> int:
        """How many sends and edits reached the other side, taken or not."""
        return 0

    def count_listeners(self) -> int | None:
        """How many connections the other side has with us."""
        return None

    def count_typing(self) -> int | None:
        """How often people saw that somebody types."""
        return None

    def cut(self) -> bool:
        """Every connection breaks."""
        return False

    def misconfigured(self) -> Adapter | None:
        """An adapter with a secret that the other side does not know."""
        return None

    async def restart(self) -> bool:
        """The process dies before what it heard last was confirmed, and another one connects."""
        return False

    async def repeat_backwards(self, count: int) -> bool:
        """The platform delivers the last messages once more, the newest first."""
        del count
        return False

    async def edit_said(self, text: str) -> bool:
        """The person changes what they said last."""
        del text
        return False

    async def say_as_namesake(self, text: str) -> bool:
        """Somebody else writes who has the same name."""
        del text
        return False

    async def say_file(self, name: str, data: bytes) -> bool:
        """The person sends a file."""
        del name, data
        return False

    async def press(self, label: str) -> bool:
        """The person presses a button of the newest message."""
        del label
        return False


class PlatformSuite:
    """Inherit, and give `open_rig` (an adapter that is not connected yet)."""

    def open_rig(self, tmp_path: Path) -> AbstractAsyncContextManager[Rig]:
        raise NotImplementedError

    def test_the_spec_is_whole_and_found(self, tmp_path: Path) -> None:
        async def steps(rig: Rig) -> None:
            spec = rig.adapter.spec
            assert platform_list.find_spec(spec.name).factory == spec.factory
            assert spec.label
            assert spec.length_unit in _FILLERS
            find_dialect(spec.markup)
            assert spec.reserved_calls < max(spec.burst_calls, 2)
            assert (rig.address.platform, rig.address.account) == (spec.name, rig.adapter.account)

        self._run(tmp_path, steps, connected=False)

    def test_it_connects_and_disconnects_twice(self, tmp_path: Path) -> None:
        async def steps(rig: Rig) -> None:
            for n in range(2):
                await rig.connect()
                await rig.say(f"hello {n}")
                await until(lambda n=n: len({one.ext_id for one in rig.heard()}) == n + 1)
                await rig.disconnect()
            await rig.disconnect()

        self._run(tmp_path, steps, connected=False)

    def test_it_leaves_no_task_and_no_thread(self, tmp_path: Path) -> None:
        """F1: what an adapter starts ends with it."""

        async def steps(rig: Rig) -> None:
            before = _count_helpers()
            await rig.connect()
            await rig.say("hello")
            await rig.adapter.send(self._part(rig, "hello"))
            await rig.disconnect()
            await until(lambda: _count_helpers() <= before)

        self._run(tmp_path, steps, connected=False)

    def test_a_message_has_its_text_its_place_and_its_sender(self, tmp_path: Path) -> None:
        async def steps(rig: Rig) -> None:
            await rig.say(rig.sample)
            await until(lambda: len(rig.heard()) == 1)
            (inbound,) = rig.heard()
            assert inbound.text == rig.sample
            assert inbound.sender
            assert inbound.message
            assert inbound.address.account_key == rig.address.account_key
            assert inbound.address.chat_key == rig.address.chat_key

        self._run(tmp_path, steps)

    def test_ids_are_stable_and_unique(self, tmp_path: Path) -> None:
        """C1: a message that comes again has the id it had; another one has another."""

        async def steps(rig: Rig) -> None:
            await rig.say("one")
            await rig.say("one")
            await until(lambda: len(rig.heard()) == 2)
            await rig.repeat()
            await until(lambda: len(rig.heard()) == 3)
            first, second, third = (inbound.ext_id for inbound in rig.heard())
            assert first != second
            assert third == second

        self._run(tmp_path, steps)

    def test_what_could_not_be_stored_comes_again(self, tmp_path: Path) -> None:
        """C1: the platform hears that a message was received only after it is stored."""

        async def steps(rig: Rig) -> None:
            self._need(rig, NOT_STORED)
            await rig.say("hello")
            await until(lambda: [inbound.text for inbound in rig.heard()] == ["hello"])

        self._run(tmp_path, steps)

    def test_what_was_said_during_an_absence_is_read_later(self, tmp_path: Path) -> None:
        """C1: where the app has a history, from the last stored message on: once, and in order."""

        async def steps(rig: Rig) -> None:
            if not rig.adapter.spec.has_history:
                pytest.skip("this platform has no history, or brings again what nobody has confirmed")
            await rig.say("before")
            await until(lambda: len(rig.heard()) == 1)
            await rig.disconnect()
            for text in ("missed 1", "missed 2"):
                await rig.say(text)
            await rig.connect()
            await rig.say("after")
            await until(lambda: len(rig.heard()) == 4)
            assert [inbound.text for inbound in rig.heard()] == ["before", "missed 1", "missed 2", "after"]

        self._run(tmp_path, steps)

    def test_messages_are_shown_in_order_under_ids_of_their_own(self, tmp_path: Path) -> None:
        async def steps(rig: Rig) -> None:
            ids = [await rig.adapter.send(self._part(rig, f"text {n}", f"k{n}")) for n in range(3)]
            assert all(ids)
            assert len(set(ids)) == 3
            await _until_seen(rig, [f"text {n}" for n in range(3)])

        self._run(tmp_path, steps)

    def test_edits_are_as_the_spec_says(self, tmp_path: Path) -> None:
        async def steps(rig: Rig) -> None:
            part = self._part(rig, "before")
            platform_id = await rig.adapter.send(part)
            if not rig.adapter.spec.can_edit:
                with pytest.raises(NeverTaken):
                    await rig.adapter.edit(platform_id, replace(part, text="after"))
                return
            await rig.adapter.edit(platform_id, replace(part, text="after"))
            await rig.adapter.edit(platform_id, replace(part, text="after"))  # a repetition is no failure
            await _until_seen(rig, ["after"])
            with pytest.raises(NeverTaken):
                await rig.adapter.edit("no such message", part)

        self._run(tmp_path, steps, provoked=(SAME_TEXT,))

    def test_typing_is_never_a_failure(self, tmp_path: Path) -> None:
        async def steps(rig: Rig) -> None:
            await rig.adapter.typing(rig.address)
            assert await rig.seen() == []

        self._run(tmp_path, steps)

    def test_files_are_as_the_spec_says(self, tmp_path: Path) -> None:
        async def steps(rig: Rig) -> None:
            path = tmp_path / "plan.txt"
            path.write_text("the plan")
            file = FileRef(str(path), "plan.txt", size=8)
            outgoing = Outgoing(rig.address, "here", kind="file", file=file)
            part = replace(self._part(rig, "here"), outgoing=outgoing)
            if rig.adapter.spec.takes_files:
                assert await rig.adapter.send_file(part, file)
                await _until_seen(rig, ["plan.txt"])
            else:
                with pytest.raises(NeverTaken):
                    await rig.adapter.send_file(part, file)

        self._run(tmp_path, steps)

    def test_the_limit_of_the_spec_is_true(self, tmp_path: Path) -> None:
        async def steps(rig: Rig) -> None:
            spec = rig.adapter.spec
            filler = _FILLERS[spec.length_unit]
            most = spec.max_length // _SIZES[spec.length_unit] if spec.max_length else 100_000
            await rig.adapter.send(self._part(rig, filler * most, "k1"))
            await _until_seen(rig, [filler * most])
            if spec.max_length:
                with pytest.raises(NeverTaken):
                    await rig.adapter.send(self._part(rig, filler * (most + 1), "k2"))

        self._run(tmp_path, steps, provoked=(TOO_LONG,))

    def test_keys_are_as_the_spec_says(self, tmp_path: Path) -> None:
        """C7: where keys are taken, a repetition shows once and has the id of the first."""

        async def steps(rig: Rig) -> None:
            ids = [await rig.adapter.send(self._part(rig, "hello", "k")) for _ in range(2)]
            once = rig.adapter.spec.takes_keys
            await _until_seen(rig, ["hello"] * (1 if once else 2))
            assert len(set(ids)) == 1 or not once

        self._run(tmp_path, steps)

    @pytest.mark.parametrize("trouble", [PENALTY, REFUSED, CLOSED_BEFORE, CLOSED_AFTER])
    def test_failures_are_told_in_the_words_of_the_face(self, tmp_path: Path, trouble: str) -> None:
        """C7, C8: who sends knows whether to wait, to give up, or to send again in doubt."""

        async def steps(rig: Rig) -> None:
            self._need(rig, trouble)
            with pytest.raises(DeliveryFailure) as failure:
                await rig.adapter.send(self._part(rig, "hello"))
            expected = {PENALTY: NotNow, REFUSED: NeverTaken}.get(trouble, DeliveryFailure)
            assert failure.type is expected
            if isinstance(failure.value, NotNow):
                assert failure.value.seconds is None or failure.value.seconds > 0
            await _until_seen(rig, ["hello"] if trouble == CLOSED_AFTER else [])

        self._run(tmp_path, steps)

    def test_signs_of_life_are_noted(self, tmp_path: Path) -> None:
        """C13: connected means heard from lately."""

        async def steps(rig: Rig) -> None:
            assert rig.adapter.last_seen == 0.0
            began = time.time()
            await rig.connect()
            connected = rig.adapter.last_seen
            assert connected >= began
            await asyncio.sleep(0.01)
            await rig.say("hello")
            await until(lambda: rig.adapter.last_seen > connected)

        self._run(tmp_path, steps, connected=False)

    def test_somebody_who_is_there_can_be_reached(self, tmp_path: Path) -> None:
        async def steps(rig: Rig) -> None:
            assert rig.adapter.reachable(rig.address) is True

        self._run(tmp_path, steps)

    def test_each_message_is_heard_once_whatever_is_repeated(self, tmp_path: Path) -> None:
        """C1: what comes again, late, in another order or to another process has the id it had."""

        async def steps(rig: Rig) -> None:
            said = [f"message {n}" for n in range(4)]
            for text in said:
                await rig.say(text)
            await until(lambda: len(rig.heard()) >= 4)
            await rig.repeat()
            await until(lambda: len(rig.heard()) >= 5)
            if await rig.repeat_backwards(4):
                await until(lambda: len(rig.heard()) >= 9)
            if await rig.restart():
                await rig.say("afterwards")
                said.append("afterwards")
                await until(lambda: "afterwards" in [inbound.text for inbound in rig.heard()])
            assert _without_copies(rig) == said

        self._run(tmp_path, steps)

    def test_order_is_kept(self, tmp_path: Path) -> None:
        """C3: what one person says is handed over in the order in which it was said."""

        async def steps(rig: Rig) -> None:
            said = [f"{n}" for n in range(30)]
            for text in said:
                await rig.say(text)
            await until(lambda: len(rig.heard()) >= 30)
            assert _without_copies(rig) == said

        self._run(tmp_path, steps)

    def test_a_broken_connection_is_made_again(self, tmp_path: Path) -> None:
        """C13: nothing that was said meanwhile is lost, and nobody has to do anything."""

        async def steps(rig: Rig) -> None:
            await rig.say("before")
            await until(lambda: len(rig.heard()) >= 1)
            if not rig.cut():
                pytest.skip("this platform's connection cannot be cut from outside")
            await rig.say("after")
            await until(lambda: _without_copies(rig) == ["before", "after"], 60)

        self._run(tmp_path, steps)

    def test_an_edit_is_another_revision(self, tmp_path: Path) -> None:
        """C1: the same message, told apart from what it was before."""

        async def steps(rig: Rig) -> None:
            await rig.say("frist")
            await until(lambda: len(rig.heard()) == 1)
            for n, text in enumerate(("first", "First.")):
                if not await rig.edit_said(text):
                    pytest.skip("nobody can change here what they said")
                await until(lambda n=n: len(rig.heard()) == n + 2)
            original, once, twice = rig.heard()
            assert (once.text, twice.text) == ("first", "First.")
            assert original.stem == once.stem == twice.stem
            assert original.revision == ""
            assert len({inbound.ext_id for inbound in rig.heard()}) == 3

        self._run(tmp_path, steps)

    def test_a_name_identifies_nobody(self, tmp_path: Path) -> None:
        """G1: two people of one name are two people."""

        async def steps(rig: Rig) -> None:
            await rig.say("it is me")
            if not await rig.say_as_namesake("it is me"):
                pytest.skip("there is one person here")
            await until(lambda: len(rig.heard()) == 2)
            first, second = rig.heard()
            assert first.sender_name == second.sender_name
            assert first.sender != second.sender
            assert first.sender_name not in (first.sender, second.sender)
            assert first.ext_id != second.ext_id

        self._run(tmp_path, steps)

    def test_a_file_that_was_sent_to_us_can_be_fetched(self, tmp_path: Path) -> None:
        async def steps(rig: Rig) -> None:
            data = bytes(range(256)) * 40
            if not await rig.say_file("plan.bin", data):
                pytest.skip("nobody can send files here")
            await until(lambda: len(rig.heard()) == 1)
            (file,) = rig.heard()[0].files
            assert file.remote
            assert file.name == "plan.bin"
            assert file.size in (0, len(data))  # 0: the platform does not say so
            await rig.adapter.fetch(file, tmp_path / "fetched")
            assert (tmp_path / "fetched").read_bytes() == data
            with pytest.raises(DeliveryFailure):
                await rig.adapter.fetch(replace(file, remote="no such file"), tmp_path / "nothing")

        self._run(tmp_path, steps)

    def test_buttons_are_as_the_spec_says(self, tmp_path: Path) -> None:
        """G4: a pressed button says which question it answers, and with what."""

        async def steps(rig: Rig) -> None:
            part = replace(self._part(rig, "Shall I?"), question="q-4711", choices=("Yes, once", "No"))
            outgoing = Outgoing(rig.address, "Shall I?", kind="question", question="q-4711", choices=part.choices)
            await rig.adapter.send(replace(part, outgoing=outgoing))
            if not rig.adapter.spec.has_buttons or not await rig.press("Yes, once"):
                pytest.skip("there are no buttons here")
            await until(lambda: len(rig.heard()) == 1)
            (pressed,) = rig.heard()
            assert (pressed.question, pressed.text) == ("q-4711", "Yes, once")
            assert pressed.address.chat_key == rig.address.chat_key
            assert pressed.sender

        self._run(tmp_path, steps)

    def test_typing_is_as_the_spec_says(self, tmp_path: Path) -> None:
        async def steps(rig: Rig) -> None:
            if rig.count_typing() is None:
                pytest.skip("nobody can see here who types")
            await rig.adapter.typing(rig.address)
            assert bool(rig.count_typing()) == rig.adapter.spec.has_typing

        self._run(tmp_path, steps)

    def test_who_disconnects_is_gone(self, tmp_path: Path) -> None:
        """F1, C1: no connection is left, and what is said meanwhile waits for the next one."""

        async def steps(rig: Rig) -> None:
            await rig.connect()
            if rig.count_listeners() is None:
                pytest.skip("the other side cannot say who is connected")
            await rig.say("before")
            await until(lambda: len(rig.heard()) >= 1)
            await rig.disconnect()
            await until(lambda: rig.count_listeners() == 0)
            await rig.say("meanwhile")
            await rig.connect()
            await until(lambda: _without_copies(rig) == ["before", "meanwhile"])

        self._run(tmp_path, steps, connected=False)

    def test_secrets_are_told_to_nobody(self, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
        """G6: no log line and no error text has them, whatever goes wrong."""
        caplog.set_level(logging.DEBUG)

        async def steps(rig: Rig) -> None:
            if not rig.secrets:
                pytest.skip("this platform has no secrets")
            told: list[str] = []
            for n, trouble in enumerate((CLOSED_BEFORE, CLOSED_AFTER, REFUSED, BAD_MARKUP, PENALTY)):
                if rig.trouble(trouble):
                    with pytest.raises(DeliveryFailure) as failure:
                        await rig.adapter.send(self._part(rig, "hello", f"k{n}"))  # one that arrived is not sent again
                    told += traceback.format_exception(failure.value)
            wrong = rig.misconfigured()
            if wrong is not None:
                with pytest.raises(ConfigProblem) as problem:
                    await wrong.connect(HeardCore())
                told += [*traceback.format_exception(problem.value), wrong.problem]
                await wrong.disconnect()
            rig.cut()
            await rig.say("hello")
            await until(lambda: len(rig.heard()) >= 1, 60)
            for secret in rig.secrets:
                assert secret not in "".join(told)
                assert secret not in caplog.text
                assert secret not in rig.adapter.problem

        self._run(tmp_path, steps)

    def test_nothing_is_sent_during_a_penalty(self, tmp_path: Path) -> None:
        """C8: by the real delivery. One refused call, then silence for the time that the platform named."""

        async def steps(rig: Rig) -> None:
            self._need(rig, BRIEF_PENALTY)
            async with delivering(rig, tmp_path) as post:
                post.put("hello")
                post.put("and more")
                await _until_seen(rig, ["hello", "and more"])
                await until(lambda: post.waits() == 0)

        self._run(tmp_path, steps)

    def test_markup_that_is_refused_goes_as_plain_text(self, tmp_path: Path) -> None:
        """C9: by the real delivery. No message is lost because of how it looks."""

        async def steps(rig: Rig) -> None:
            self._need(rig, BAD_MARKUP)
            async with delivering(rig, tmp_path) as post:
                post.put("**bold** move")
                await until(lambda: post.waits() == 0)
            (text,) = await rig.seen()
            assert "bold" in text
            assert "move" in text

        self._run(tmp_path, steps)

    @pytest.mark.slow
    def test_the_final_text_stands_there_once_after_a_storm(self, tmp_path: Path) -> None:
        """C7, C8, C9: by the real delivery. Edits, refusals and broken connections, and then the answer, once."""

        async def steps(rig: Rig) -> None:
            if not rig.adapter.spec.can_edit:
                pytest.skip("nothing is streamed here")
            self._need(rig, STORM)
            async with delivering(rig, tmp_path) as post:
                n = 0
                async with asyncio.timeout(60):
                    while rig.count_calls() < 6:
                        n += 1
                        post.delivery.draft(rig.address, "word " * n, TURN)
                        await asyncio.sleep(0.05)
                post.put("The whole answer.", draft=post.delivery.find_draft(rig.address, TURN), turn=TURN)
                await until(lambda: post.waits() == 0, 60)
                await _until_seen(rig, ["The whole answer."])

        self._run(tmp_path, steps)

    def _run(
        self,
        tmp_path: Path,
        steps: Callable[[Rig], Awaitable[None]],
        connected: bool = True,
        provoked: tuple[str, ...] = (),
    ) -> None:
        """`provoked`: what the other side may complain about."""

        async def all_steps() -> None:
            async with self.open_rig(tmp_path) as rig:
                async with _connected(rig, connected):
                    await steps(rig)
                assert [kind for kind in rig.complaints() if kind not in provoked] == []

        asyncio.run(all_steps())

    def _part(self, rig: Rig, text: str, key: str = "k0") -> Part:
        """As delivery makes it: with the whole message, for platforms that show more than text."""
        return Part(rig.address, text, key=key, row=int(key[1:] or 0) + 1, outgoing=Outgoing(rig.address, text))

    def _need(self, rig: Rig, trouble: str) -> None:
        if not rig.trouble(trouble):
            pytest.skip(f"this platform cannot be made to show: {trouble}")


class RigPost:
    """An outbox on a real store, and the real delivery from it to the rig's adapter."""

    def __init__(self, rig: Rig, turns: TurnStore, delivery: Delivery) -> None:
        self.delivery = delivery
        self._rig = rig
        self._turns = turns
        self._names = itertools.count()

    def put(self, text: str, **more: Any) -> None:
        """A message into the outbox."""
        outgoing = Outgoing(self._rig.address, text, **more)
        assert self._turns.post(outgoing.address.conversation("default"), f"n{next(self._names)}", outgoing)
        self.delivery.wake(self._rig.address)

    def waits(self) -> int:
        return self._turns.depth()[1]


@asynccontextmanager
async def delivering(rig: Rig, folder: Path, pace: Pace = QUICK) -> AsyncIterator[RigPost]:
    store = Store(folder / "rig.db")
    try:
        node = store.turns.join(NodeInfo("1", alone=True))
        delivery = Delivery(store.turns, [rig.adapter], node, call_off_loop, pace)
        await delivery.start()
        try:
            yield RigPost(rig, store.turns, delivery)
        finally:
            await delivery.stop()
    finally:
        store.close()


def _without_copies(rig: Rig) -> list[str]:
    """The texts that were heard, each message once, in the order in which they first came."""
    first = {inbound.ext_id: inbound.text for inbound in reversed(rig.heard())}
    return [first[ext_id] for ext_id in dict.fromkeys(inbound.ext_id for inbound in rig.heard())]


@asynccontextmanager
async def _connected(rig: Rig, wanted: bool) -> AsyncIterator[None]:
    if wanted:
        await rig.connect()
    try:
        yield
    finally:
        await rig.disconnect()


def _count_helpers() -> int:
    """Tasks and threads, but for the event loop's own pool."""
    threads = [thread for thread in threading.enumerate() if not thread.name.startswith("asyncio_")]
    return len(asyncio.all_tasks()) + len(threads)


async def _until_seen(rig: Rig, texts: list[str]) -> None:
    async with asyncio.timeout(20.0):
        while await rig.seen() != texts:  # noqa: ASYNC110 - seen from outside, where nobody sets an event for it
            await asyncio.sleep(0.005)
