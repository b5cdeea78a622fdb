"""A whole gateway on a loop thread of its own, with the pretend platform switched on, and people who write to it."""

import asyncio
import json
import threading
import time
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeVar

from waiting import wait_until

from gateway.app.socket_door import open_socket
from gateway.core.drafts import UNFINISHED
from gateway.platforms import platform_list
from gateway.platforms.face import PlatformSpec
from gateway.platforms.pretend.adapter import PretendAdapter, describe
from gateway.platforms.pretend.service import PretendMessage, PretendRules, PretendService, Update
from gateway.service.gateway import Gateway
from hermes_base.inbound import Address
from hermes_base.turn.consent import TABLE
from hermes_state.home_lock import HomeLock

T = TypeVar("T")
ACCOUNT = "bot"
PATIENCE = 20.0


class House:
    """One home; its gateway starts and stops, the service and its people stay."""

    def __init__(self, home: Path, base_url: str, rules: PretendRules | None = None, **settings: Any) -> None:
        self.home = home
        self.service = PretendService(rules or PretendRules())
        self.base_url = base_url
        self.settings = settings
        self.write_settings()
        self._life: _Life | None = None

    # --- life

    def write_settings(self, **changes: Any) -> None:
        """The settings file, with these sections in place of what stood there."""
        self.settings = {**self.settings, **changes}
        pretend = {"enabled": True, "account": ACCOUNT, **self.settings.get("pretend", {})}
        given = {name: section for name, section in self.settings.items() if name != "pretend"}
        model = {"base_url": self.base_url, "default": "lab"}
        others = given.get("platforms", {})
        written = {"model": model, "approvals": {"mode": "auto"}, **given, "platforms": {**others, "pretend": pretend}}
        self.home.mkdir(parents=True, exist_ok=True)
        (self.home / "config.yaml").write_text(json.dumps(written))

    def start(self) -> None:
        spec: PlatformSpec = describe(self.service.rules)
        platform_list.register(
            spec, lambda account, given, home: PretendAdapter(account, {**given, "service": self.service}, home)
        )
        self._life = _Life(self.home)
        self._life.start()

    def stop(self, reason: str = "the test stops it") -> None:
        """End the gateway in order."""
        life, self._life = self._life, None
        if life is not None:
            life.stop(reason)

    def begin_stop(self, reason: str = "the test stops it") -> None:
        """Tell the gateway to end, and do not wait for it."""
        self.call(lambda: self.gateway.shut_down(reason))

    def __enter__(self) -> "House":
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()
        platform_list.unregister("pretend")

    @property
    def gateway(self) -> Gateway:
        assert self._life is not None
        assert self._life.gateway is not None
        return self._life.gateway

    # --- from the test's thread

    def call(self, work: Callable[[], T]) -> T:
        """Do something on the gateway's loop, or here while there is none."""
        if self._life is None:
            return work()

        async def do() -> T:
            return work()

        return self._life.run(do())

    def wait_for(self, work: Coroutine[Any, Any, T]) -> T:
        assert self._life is not None
        return self._life.run(work)

    def operate(self, name: str, **args: Any) -> dict[str, Any]:
        """What an operator asks of the gateway."""
        return self.wait_for(self.gateway.operations.perform(name, args))

    def person(self, sender: str, chat: str = "", kind: str = "dm", name: str = "") -> "Visitor":
        return Visitor(self, sender, chat or f"chat-{sender}", kind, name or sender.title())

    def wait_quiet(self, seconds: float = PATIENCE) -> None:
        """Until every message is dealt with and everything that was said has arrived."""
        turns = self.gateway.turns
        wait_until(
            lambda: not self.service.updates and turns.depth() == (0, 0) and not self.gateway.lanes.at_work, seconds
        )


@dataclass(frozen=True, slots=True)
class Visitor:
    """Somebody in one chat of the service."""

    house: House
    sender: str
    chat: str
    kind: str
    name: str

    @property
    def conversation(self) -> str:
        return Address("pretend", ACCOUNT, self.chat, self.kind).conversation(self.house.gateway.parts.profile)

    def say(self, text: str, *, mentioned: bool = True, **more: Any) -> Update:
        """Write something; what becomes of it comes later."""
        service = self.house.service
        return self.house.call(
            lambda: service.say(
                self.chat,
                text,
                self.sender,
                self.kind,
                name=self.name,
                mentioned=mentioned and self.kind != "dm",
                **more,
            )
        )

    def edit(self, update: Update, text: str, revision: str = "1") -> Update:
        """Change what was said before."""
        edited = replace(update, text=text, revision=revision, at=time.time())
        return self.house.call(lambda: self.house.service.repeat(edited))

    def press(self, message: PretendMessage, choice: str) -> Update:
        """Press a button under a message, named by its label or, of an approval, by its choice."""
        label = TABLE[choice].label if choice in TABLE and choice not in message.choices else choice
        assert label in message.choices
        return self.say(label, question=message.question)

    @property
    def messages(self) -> list[PretendMessage]:
        return [message for message in list(self.house.service.messages) if message.chat == self.chat]

    @property
    def seen(self) -> list[str]:
        """What stands in the chat from us, in order."""
        return [message.text for message in self.messages]

    def count(self, text: str) -> int:
        """Messages in the chat with this in them."""
        return sum(text in seen for seen in self.seen)

    def wait_seen(self, text: str, times: int = 1, seconds: float = PATIENCE) -> PretendMessage:
        """The last finished message with this in it, when there are so many of them."""
        end = time.monotonic() + seconds
        while True:
            found = [one for one in self.messages if text in one.text and not one.text.endswith(UNFINISHED)]
            if len(found) >= times:
                return found[-1]
            assert time.monotonic() < end, f"{self.name} never saw {text!r} {times} times: {self.seen}"
            time.sleep(0.01)

    def wait_question(self, text: str = "", seconds: float = PATIENCE) -> PretendMessage:
        """The last question in the chat with this in it, when there is one and the gateway knows that it arrived."""

        def find() -> list[PretendMessage]:
            found = [message for message in self.messages if message.question and text in message.text]
            open = self.house.gateway.questions.open(self.conversation)
            on_its_way = open is not None and open.shown is None
            return [] if found and on_its_way and open.id == found[-1].question else found

        wait_until(lambda: bool(find()), seconds)
        return find()[-1]

    def ask(self, text: str, seconds: float = PATIENCE, **more: Any) -> Sequence[str]:
        """Say something, wait until all is dealt with, and read what was new in the chat."""
        before = len(self.messages)
        self.say(text, **more)
        self.house.wait_quiet(seconds)
        return self.seen[before:]


class _Life:
    """One life of the gateway, on its thread."""

    def __init__(self, home: Path) -> None:
        self.gateway: Gateway | None = None
        self._home = home
        self._loop: asyncio.AbstractEventLoop | None = None
        self._ready = threading.Event()
        self._problem: BaseException | None = None
        self._thread = threading.Thread(target=self._run, name="house", daemon=True)

    def start(self) -> None:
        self._thread.start()
        assert self._ready.wait(PATIENCE), "the gateway did not start"
        if self._problem is not None:
            raise self._problem

    def run(self, work: Awaitable[T]) -> T:
        assert self._loop is not None

        async def do() -> T:
            return await work

        return asyncio.run_coroutine_threadsafe(do(), self._loop).result(60)

    def stop(self, reason: str) -> None:
        assert self._loop is not None
        assert self.gateway is not None
        if self._thread.is_alive():
            self._loop.call_soon_threadsafe(self.gateway.shut_down, reason)
        self._thread.join(30)
        assert not self._thread.is_alive(), "the gateway did not end"
        if self._problem is not None:
            raise self._problem

    def _run(self) -> None:
        try:
            with HomeLock(self._home):
                asyncio.run(self._serve())
        except BaseException as problem:  # the thread's top: the test gets it
            self._problem = problem
        finally:
            self._ready.set()

    async def _serve(self) -> None:
        self._loop = asyncio.get_running_loop()
        self.gateway = Gateway(self._home)
        await self.gateway.start()
        await open_socket(self.gateway)
        self._ready.set()
        await self.gateway.wait_closed()
