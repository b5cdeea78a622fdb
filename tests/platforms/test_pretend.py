"""The pretend platform in several shapes, by the suite that every platform passes."""

import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import replace
from pathlib import Path

from platform_suite import (
    BAD_MARKUP,
    BRIEF_PENALTY,
    CLOSED_AFTER,
    CLOSED_BEFORE,
    NOT_STORED,
    PENALTY,
    REFUSED,
    STORM,
    PlatformSuite,
    Rig,
)
from pretending import HeardCore, place

from gateway.platforms import platform_list
from gateway.platforms.pretend.adapter import PretendAdapter
from gateway.platforms.pretend.service import PretendRules, PretendService, Update
from hermes_base.inbound import Inbound


class PretendRig(Rig):
    def __init__(self, rules: PretendRules, home: Path) -> None:
        self.service = PretendService(rules)
        spec = platform_list.find_spec("pretend")
        adapter = platform_list.make_adapter(spec, "bot", {"service": self.service}, home)
        assert isinstance(adapter, PretendAdapter)
        self.adapter = adapter
        self.address = place()
        self.core = HeardCore()
        self.last: Update | None = None
        self.said: list[Update] = []

    async def connect(self) -> None:
        await self.adapter.connect(self.core)

    async def restart(self) -> bool:
        await self.adapter.disconnect()
        assert self.last
        self.service.repeat(self.last)
        self.adapter = PretendAdapter("bot", {"service": self.service}, self.adapter.home)
        await self.connect()
        return True

    async def say(self, text: str) -> None:
        self.last = self.service.say("c1", text, name="Ann")
        self.said.append(self.last)

    async def say_as_namesake(self, text: str) -> bool:
        self.service.say("c1", text, sender="another", name="Ann")
        return True

    async def edit_said(self, text: str) -> bool:
        assert self.last
        self.last = replace(self.last, text=text, revision=f"{int(self.last.revision or 0) + 1}")
        await self.repeat()
        return True

    async def press(self, label: str) -> bool:
        self.service.say("c1", label, question=self.service.messages[-1].question)
        return True

    async def repeat_backwards(self, count: int) -> bool:
        for update in self.said[: -count - 1 : -1]:
            self.service.repeat(update)
        return True

    async def repeat(self) -> None:
        assert self.last
        self.service.repeat(self.last)

    def heard(self) -> list[Inbound]:
        return self.core.taken

    async def seen(self) -> list[str]:
        return [message.file or message.text for message in self.service.messages if message.chat == "c1"]

    def trouble(self, name: str) -> bool:
        if name in (PENALTY, BRIEF_PENALTY):
            self.service.punish(30 if name == PENALTY else 1)
        elif name == STORM:
            self.service.troubles.extend(["", CLOSED_AFTER, CLOSED_BEFORE, "", CLOSED_AFTER])
        elif name == NOT_STORED:
            self.core.failures = 1
        else:
            assert name in (REFUSED, CLOSED_BEFORE, CLOSED_AFTER, BAD_MARKUP)
            self.service.troubles.append(name)
        return True

    def complaints(self) -> list[str]:
        """A second refused call within one penalty."""
        refused = [call for call in self.service.calls if call.status == 429]
        return ["penalty"] * (len(refused) - 1)

    def count_calls(self) -> int:
        return sum(call.kind != "typing" for call in self.service.calls)

    def count_typing(self) -> int:
        return sum(call.kind == "typing" for call in self.service.calls)


class Shape(PlatformSuite):
    rules = PretendRules()

    def open_rig(self, tmp_path: Path) -> AbstractAsyncContextManager[Rig]:
        @asynccontextmanager
        async def rig() -> AsyncIterator[Rig]:
            yield PretendRig(self.rules, tmp_path)

        return rig()


class TestAble(Shape):
    pass


class TestBare(Shape):
    rules = PretendRules(
        max_length=160,
        length_unit="bytes",
        can_edit=False,
        takes_keys=False,
        has_buttons=False,
        has_typing=False,
        takes_files=False,
    )


class TestUtf16(Shape):
    rules = PretendRules(max_length=2000, length_unit="utf16", takes_keys=False)


class TestRemembering(Shape):
    rules = PretendRules(has_history=True)


class TestSlow(Shape):
    rules = PretendRules(latency=0.01, max_length=0)


def test_an_account_without_a_service_has_its_own(tmp_path: Path) -> None:
    first = PretendAdapter("a", {}, tmp_path)
    second = PretendAdapter("b", {}, tmp_path)
    assert first.service is not second.service


def test_its_light_part_loads_no_adapter() -> None:
    """Reading a spec costs next to nothing: the adapter's module is loaded when an account is opened."""
    code = (
        "import sys; from gateway.platforms import platform_list; "
        "platform_list.find_spec('local'); print('asyncio' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"
