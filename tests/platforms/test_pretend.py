"""The pretend platform in several shapes, by the suite that every platform passes."""

import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path

from platform_suite import CLOSED_AFTER, CLOSED_BEFORE, NOT_STORED, PENALTY, REFUSED, PlatformSuite, Rig
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

    async def connect(self) -> None:
        await self.adapter.connect(self.core)

    async def say(self, text: str) -> None:
        self.last = self.service.say("c1", text)

    async def repeat(self) -> None:
        assert self.last
        self.service.repeat(self.last)

    def heard(self) -> list[Inbound]:
        return self.core.taken

    async def seen(self) -> list[str]:
        return [message.file or message.text for message in self.service.messages if message.chat == "c1"]

    def trouble(self, name: str) -> bool:
        if name == PENALTY:
            self.service.punish(30)
        elif name == NOT_STORED:
            self.core.failures = 1
        else:
            assert name in (REFUSED, CLOSED_BEFORE, CLOSED_AFTER)
            self.service.troubles.append(name)
        return True


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
