"""Speaks to the pretend service as an adapter speaks to a real one: polls, confirms what is stored, maps its errors."""

import asyncio
import contextlib
import logging
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from gateway.platforms.face import BaseAdapter, Core, MenuCommand, NeverTaken, NotNow, Part, PlatformSpec, Refused
from gateway.platforms.pretend import SPEC
from gateway.platforms.pretend.service import (
    BAD_MARKUP,
    PretendMessage,
    PretendRules,
    PretendService,
    ServiceError,
    Update,
)
from hermes_base.errors import ConfigProblem, DeliveryFailure
from hermes_base.inbound import Address, FileRef, Inbound

_log = logging.getLogger(__name__)
RETRY_SECONDS = 0.05


def describe(rules: PretendRules) -> PlatformSpec:
    """The facts about a service with these rules."""
    facts = asdict(rules)
    del facts["latency"]
    return replace(SPEC, **facts)


class PretendAdapter(BaseAdapter):
    def __init__(self, account: str, settings: Mapping[str, Any], home: Path) -> None:
        super().__init__(account, settings, home)
        self.service: PretendService = settings.get("service") or PretendService()
        self.spec = describe(self.service.rules)
        self._reading: asyncio.Task[None] | None = None
        self._away: set[str] = set()
        self._told: dict[str, str] = {}  # the last refusal of each chat, since a message was taken
        self._core: Core | None = None

    async def connect(self, core: Core) -> None:
        if self.service.locked_out:
            raise ConfigProblem(self.service.locked_out, fix="Give it another token.")
        self._core = core
        self.last_seen = time.time()
        if self._reading is None:
            missed = await self._find_missed(core) if self.spec.has_history else []
            self.service.listening = True
            self._reading = asyncio.create_task(self._read(core, missed))

    async def disconnect(self) -> None:
        self.service.listening = False
        reading, self._reading = self._reading, None
        if reading is not None:
            reading.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await reading

    async def send(self, part: Part) -> str:
        return await self._post(part, "")

    async def send_file(self, part: Part, file: FileRef) -> str:
        if not self.spec.takes_files:
            raise NeverTaken(f"{self.spec.label} takes no files.")
        return await self._post(part, file.name, await asyncio.to_thread(_read_file, Path(file.path)))

    async def edit(self, platform_id: str, part: Part) -> None:
        if not self.spec.can_edit:
            raise NeverTaken(f"{self.spec.label} cannot edit messages.")
        with _translate_errors():
            choices = part.choices if self.spec.has_buttons else ()
            await self.service.edit(part.address.chat_key, platform_id, part.text, choices)
        self.last_seen = time.time()

    async def typing(self, address: Address) -> None:
        if self.spec.has_typing:
            with _translate_errors():
                await self.service.type(address.chat_key)

    async def acknowledge(self, address: Address, message: str) -> None:
        with _translate_errors():
            await self.service.mark(address.chat_key, message)

    async def fetch(self, file: FileRef, path: Path) -> None:
        with path.open("wb", buffering=0) as written, _translate_errors():
            await self.service.fetch(file.remote, written.write)
        self.last_seen = time.time()

    async def offer_commands(self, commands: Sequence[MenuCommand]) -> None:
        with _translate_errors():
            await self.service.set_menu(tuple((command.name, command.summary) for command in commands))

    def reachable(self, address: Address) -> bool:
        return address.chat_key not in self._away

    def leave(self, address: Address) -> None:
        """Nobody is in this chat from now on."""
        self._away.add(address.chat_key)

    def come_back(self, address: Address) -> None:
        self._away.discard(address.chat_key)
        if self._core is not None:
            self._core.wake_delivery(address)

    async def _post(self, part: Part, file: str, content: str = "") -> str:
        message = PretendMessage(
            "",
            part.address.chat_key,
            part.text,
            key=part.key,
            reply_to=part.reply_to,
            choices=part.choices if self.spec.has_buttons else (),
            question=part.question,
            file=file,
            content=content,
        )
        with _translate_errors():
            platform_id = await self.service.send(message)
        self.last_seen = time.time()
        return platform_id

    async def _find_missed(self, core: Core) -> list[Update]:
        """What was said while nobody was connected, from the last stored message of each chat on."""
        last = await core.find_last(f"{self.spec.name}:{self.account}")
        return [one for address, message in last.items() for one in self.service.read_history(address.chat, message)]

    async def _read(self, core: Core, missed: list[Update]) -> None:
        while True:
            update = missed[0] if missed else await self.service.poll()
            self.last_seen = time.time()
            try:
                settled = await self._hand_over(core, self._decode(update))
            except Exception:
                _log.exception("A message could not be handed over; it is read again.")
                settled = False
            if settled and missed:
                missed.pop(0)
            elif settled:
                self.service.confirm(update)
            else:
                await asyncio.sleep(RETRY_SECONDS)

    async def _hand_over(self, core: Core, inbound: Inbound) -> bool:
        """True when the message is stored, or its sender knows that it is not; otherwise it comes again."""
        taken = await core.take(inbound)
        chat = inbound.address.chat_key
        if not isinstance(taken, Refused):
            self._told.pop(chat, None)
            return True
        if taken.closing:
            return False
        if self._told.get(chat) != taken.reason:  # once for a row of refusals, or they would be a flood themselves
            try:
                await self.send(Part(inbound.address, taken.reason))
            except DeliveryFailure as problem:
                _log.warning("Nobody in %s was told that a message was refused: %s", chat, problem)
                return False
            self._told[chat] = taken.reason
        return True

    def _decode(self, update: Update) -> Inbound:
        address = Address(self.spec.name, self.account, update.chat, update.kind, update.thread)
        return Inbound(
            address,
            update.id,
            update.sender,
            update.text,
            revision=update.revision,
            sender_name=update.name,
            mentioned=update.mentioned,
            question=update.question,
            reply_to=update.reply_to,
            quote=update.quote,
            forwarded=update.forwarded,
            album=update.album,
            files=tuple(FileRef("", file.name, file.kind, file.size, file.id) for file in update.files),
            received=update.at,
        )


def _read_file(path: Path) -> str:
    """Not every test has the file that it sends."""
    return path.read_text(errors="replace") if path.is_file() else ""


@contextlib.contextmanager
def _translate_errors() -> Iterator[None]:
    """Errors of the service, as the face of a platform names them."""
    try:
        yield
    except ServiceError as error:
        if error.status == 429:
            raise NotNow("The service asks for patience.", error.retry_after) from error
        raise NeverTaken(f"The service refused: {error}.", markup=str(error) == BAD_MARKUP) from error
    except OSError as error:
        raise DeliveryFailure(f"The connection broke: {error}.") from error
