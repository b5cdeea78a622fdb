"""What every adapter must do. A platform's test makes a `Rig` and a class that inherits `PlatformSuite`."""

import asyncio
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import replace
from pathlib import Path

import pytest
from waiting import until

from gateway.platforms import platform_list
from gateway.platforms.face import Adapter, NeverTaken, NotNow, Part
from hermes_base.errors import DeliveryFailure
from hermes_base.inbound import Address, FileRef, Inbound, Outgoing

#: Troubles that a rig may be able to make for the next call.
PENALTY, REFUSED, CLOSED_BEFORE, CLOSED_AFTER, NOT_STORED = (
    "penalty",
    "refused",
    "closed before",
    "closed after",
    "not stored",
)
_FILLERS = {"chars": "a", "utf16": "🙂", "bytes": "é"}
_SIZES = {"chars": 1, "utf16": 2, "bytes": 2}


class Rig(ABC):
    """An adapter and the other side of it. The suite calls nothing else."""

    adapter: Adapter
    address: Address  # a chat with somebody in it

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
            assert spec.markup
            assert spec.reserved_calls < max(spec.burst_calls, 2)
            assert (rig.address.platform, rig.address.account) == (spec.name, rig.adapter.account)

        self._run(tmp_path, steps, connected=False)

    def test_it_connects_and_disconnects_twice(self, tmp_path: Path) -> None:
        async def steps(rig: Rig) -> None:
            for n in range(2):
                await rig.connect()
                await rig.say(f"hello {n}")
                await until(lambda n=n: len(rig.heard()) == n + 1)
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
            text = "first line\nsecond ünï 🙂"
            await rig.say(text)
            await until(lambda: len(rig.heard()) == 1)
            (inbound,) = rig.heard()
            assert inbound.text == text
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

        self._run(tmp_path, steps)

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

        self._run(tmp_path, steps)

    def test_keys_are_as_the_spec_says(self, tmp_path: Path) -> None:
        """C7: where keys are taken, a repetition shows once and has the id of the first."""

        async def steps(rig: Rig) -> None:
            ids = [await rig.adapter.send(self._part(rig, "hello", "k")) for _ in range(2)]
            once = rig.adapter.spec.takes_keys
            await _until_seen(rig, ["hello"] * (1 if once else 2))
            assert len(set(ids)) == (1 if once else 2)

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

    def _run(self, tmp_path: Path, steps: Callable[[Rig], Awaitable[None]], connected: bool = True) -> None:
        async def all_steps() -> None:
            async with self.open_rig(tmp_path) as rig, _connected(rig, connected):
                await steps(rig)

        asyncio.run(all_steps())

    def _part(self, rig: Rig, text: str, key: str = "k0") -> Part:
        """As delivery makes it: with the whole message, for platforms that show more than text."""
        return Part(rig.address, text, key=key, row=int(key[1:] or 0) + 1, outgoing=Outgoing(rig.address, text))

    def _need(self, rig: Rig, trouble: str) -> None:
        if not rig.trouble(trouble):
            pytest.skip(f"this platform cannot be made to show: {trouble}")


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
