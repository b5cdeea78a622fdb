"""One bot on Telegram. What is said to it and by it is decided in the `wire` modules; here the calls are made, and what
Telegram answers is told in the words of the face."""

import asyncio
import contextlib
import functools
import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from gateway.platforms.face import (
    Core,
    HookAnswer,
    HookRequest,
    MenuCommand,
    NeverTaken,
    NotNow,
    Part,
)
from gateway.platforms.line_adapter import LineAdapter
from gateway.platforms.telegram import SPEC, wire_out
from gateway.platforms.telegram.known_chats import KnownChats
from gateway.platforms.telegram.link import BotLink, open_link, read_token
from gateway.platforms.telegram.reception import Reception
from gateway.platforms.telegram.refusals import (
    BAD_TOKEN,
    BotTrouble,
    TroubleKind,
    as_failure,
    is_bad_photo,
    is_unmodified,
)
from gateway.platforms.telegram.watching import SECRET_HEADER, HookDoor, Poller
from gateway.platforms.telegram.wire import BotSelf
from gateway.platforms.telegram.wire_out import BotCall
from hermes_base.errors import ConfigProblem, DeliveryFailure
from hermes_base.inbound import Address, FileRef

_log = logging.getLogger(__name__)
POLLING, WEBHOOK = "polling", "webhook"
MOVED = "The group has another id by now, and its messages have other numbers."
NOT_CONNECTED_SECONDS = 5.0
MOST_AHEAD = 100  # captions that went ahead of files which did not arrive yet


class TelegramAdapter(LineAdapter):
    def __init__(self, account: str, settings: Mapping[str, Any], home: Path) -> None:
        super().__init__(account, settings, home)
        self.spec = replace(SPEC, has_receipts=settings.get("reactions") is not False)
        self.expects_hooks = settings.get("mode") == WEBHOOK
        self._me = BotSelf(account, 0, "", {})
        self._link: BotLink | None = None
        self._reception: Reception | None = None
        self._door: HookDoor | None = None
        self._where = KnownChats()
        self._ahead: dict[str, str] = {}  # by key of the part: the caption that was sent as a message

    # --- being there: Telegram keeps what people write meanwhile; also a webhook stays, for the same reason

    async def _begin(self, core: Core) -> None:
        token, mode = read_token(self.settings.get("token"), self.account), self._read_mode()
        link = self._link = await open_link(token, str(self.settings.get("base_url") or ""), self.account)
        await self._introduce(link)
        reception = self._reception = Reception(lambda: self._me, link, core, self._where, self.send)
        watch = await self._open(mode, token, link, reception)
        self._note_life()
        self._keep(watch)

    async def _close(self) -> None:
        reception, self._reception = self._reception, None
        link, self._link, self._door = self._link, None, None
        if reception is not None:
            await reception.close()
        if link is not None:
            await link.close()

    def _read_mode(self) -> str:
        mode = str(self.settings.get("mode") or POLLING)
        if mode not in (POLLING, WEBHOOK):
            raise ConfigProblem(
                f"platforms.telegram.mode is '{mode}'.", fix=f"It is {POLLING} or {WEBHOOK}; take one of them."
            )
        if mode == WEBHOOK and not self.settings.get("public_url"):
            raise ConfigProblem(
                "A webhook needs platforms.telegram.public_url.",
                fix="Set it to the https address under which Telegram reaches this machine, or use polling.",
            )
        return mode

    async def _introduce(self, link: BotLink) -> None:
        """Who we are there; ConfigProblem when Telegram does not know the token."""
        try:
            found = await link.call(BotCall("getMe", {}))
        except BotTrouble as trouble:
            if trouble.kind is TroubleKind.TOKEN:
                raise ConfigProblem(BAD_TOKEN, fix=trouble.fix) from None
            raise as_failure(trouble) from None
        self._me = replace(self._me, id=found["id"], name=str(found.get("username") or ""))

    async def _open(self, mode: str, token: str, link: BotLink, reception: Reception) -> Callable[[], Any]:
        """Open the way for messages; what has to run from now on."""
        try:
            if mode == POLLING:
                await link.call(BotCall("deleteWebhook", {}))
                return Poller(link, reception, self._note_life, self._note_problem).run
            url = f"{str(self.settings['public_url']).rstrip('/')}/hooks/{self.spec.name}/{self.account}"
            secret = wire_out.derive_secret(token, self.account)
            door = self._door = HookDoor(link, reception, url, secret, self._note_life, self._note_problem)
            self.hook_header = SECRET_HEADER
            await door.open()
            return door.run
        except BotTrouble as trouble:
            if trouble.kind is TroubleKind.REFUSED:
                raise ConfigProblem(
                    f"Telegram does not take the webhook: {trouble}.",
                    fix="platforms.telegram.public_url has to be an https address on port 443, 80, 88 or 8443.",
                ) from None
            raise as_failure(trouble) from None

    async def receive_hook(self, request: HookRequest) -> HookAnswer:
        door = self._door
        return await door.receive(request) if door and not request.path else HookAnswer(404)

    # --- messages

    async def send(self, part: Part) -> str:
        _check_length(part)
        with self._told_by_the_face(part.address):
            return _read_id(await self._call(part.address, lambda at: wire_out.make_message(replace(part, address=at))))

    async def edit(self, platform_id: str, part: Part) -> None:
        if not wire_out.is_message_id(platform_id):
            raise NeverTaken("There is no such message in Telegram.")
        if self._where.follow(part.address) != part.address:
            raise NeverTaken(MOVED)
        _check_length(part)
        with self._told_by_the_face(part.address):
            try:
                make = functools.partial(_make_edit, platform_id, part)
                await self._call(part.address, make, follows=False)
            except BotTrouble as trouble:
                if not is_unmodified(trouble):
                    raise

    async def typing(self, address: Address) -> None:
        with self._told_by_the_face(address):
            await self._call(address, wire_out.make_typing)

    async def acknowledge(self, address: Address, message: str) -> None:
        """A chat that takes no reactions is not asked again."""
        has_moved = self._where.follow(address) != address
        if not wire_out.is_message_id(message) or has_moved or not self._where.takes_signs(address):
            return
        with self._told_by_the_face(address):
            try:
                await self._call(address, lambda at: wire_out.make_reaction(at, message), follows=False)
            except BotTrouble as trouble:
                if trouble.kind is not TroubleKind.REFUSED:
                    raise
                _log.info("A message in %s takes no reaction: %s", address.chat, trouble)
                if trouble.says("reaction"):  # of the chat; a message that was deleted says nothing on others
                    self._where.note_unsigned(address)

    async def offer_commands(self, commands: Sequence[MenuCommand]) -> None:
        call, names = wire_out.make_menu(commands)
        self._me = replace(self._me, commands=names)
        try:
            await self._find_link().call(call)
        except BotTrouble as trouble:
            raise as_failure(trouble) from None

    def reachable(self, address: Address) -> bool:
        return not self._where.is_away(address)

    # --- files

    async def send_file(self, part: Part, file: FileRef) -> str:
        data = await self._read_upload(file)
        file = replace(file, size=len(data))
        if not wire_out.fits_caption(part):
            part = await self._send_ahead(part)
        with self._told_by_the_face(part.address):
            sent = _read_id(await self._upload(part, file, data))
        self._ahead.pop(part.key, None)
        return sent

    async def _upload(self, part: Part, file: FileRef, data: bytes) -> Any:
        async def put(*, as_document: bool) -> Any:
            def make(at: Address) -> BotCall:
                return wire_out.make_file(replace(part, address=at), file, as_document=as_document)

            return await self._call(part.address, make, data, file.name)

        try:
            return await put(as_document=False)
        except BotTrouble as trouble:
            if not is_bad_photo(trouble):
                raise
        return await put(as_document=True)

    async def _send_ahead(self, part: Part) -> Part:
        """A caption that is too long is a message of its own, sent once however often the file is tried."""
        if part.key not in self._ahead:
            sent = await self.send(part)
            while len(self._ahead) >= MOST_AHEAD:
                del self._ahead[next(iter(self._ahead))]
            self._ahead[part.key] = sent
        return replace(part, text="", plain="", reply_to="", question="", choices=())

    async def fetch(self, file: FileRef, path: Path) -> None:
        try:
            data = await self._find_link().fetch(file.remote)
        except BotTrouble as trouble:
            raise as_failure(trouble) from None
        await asyncio.to_thread(path.write_bytes, data)

    # --- calls

    def _find_link(self) -> BotLink:
        if self._link is None:
            raise NotNow("Telegram is not connected.", NOT_CONNECTED_SECONDS)
        return self._link

    async def _call(
        self,
        address: Address,
        make: Callable[[Address], BotCall],
        data: bytes = b"",
        name: str = "",
        *,
        follows: bool = True,
    ) -> Any:
        """A call about a chat. A group that got another id is followed there at once, unless the call is about one of
        its messages: there the number belongs to another one."""
        link, at = self._find_link(), self._where.follow(address)
        try:
            return await link.call(make(at), data=data, name=name)
        except BotTrouble as trouble:
            if trouble.kind is not TroubleKind.MOVED:
                raise
            self._where.note_move(at.chat, trouble.moved_to)
            _log.info("The group %s is the supergroup %s now.", at.chat, trouble.moved_to)
            if not follows:
                raise NeverTaken(MOVED) from None
        return await link.call(make(self._where.follow(address)), data=data, name=name)

    @contextlib.contextmanager
    def _told_by_the_face(self, address: Address) -> Iterator[None]:
        """The context of an SDK's error may hold the token: it is left behind."""
        try:
            yield
        except BotTrouble as trouble:
            failure = as_failure(trouble)
            if isinstance(failure, NotNow) and failure.seconds is None:
                self._where.note_away(address)
                _log.warning("Nobody can be reached in %s: %s", address.chat_key, failure)
            if trouble.kind is TroubleKind.TOKEN:
                self._note_problem(f"{BAD_TOKEN} {trouble.fix}")
            raise failure from None


def _check_length(part: Part) -> None:
    """Telegram may take a little more than clients show whole; how it counts has changed before."""
    if wire_out.measure_shown(part) > wire_out.MOST_TEXT:
        raise NeverTaken(f"The text is longer than the {wire_out.MOST_TEXT} signs of a message in Telegram.")


def _make_edit(platform_id: str, part: Part, at: Address) -> BotCall:
    return wire_out.make_edit(platform_id, replace(part, address=at))


def _read_id(message: Any) -> str:
    """The id of a message that was sent; an answer without one says nothing on whether it was."""
    number = message.get("message_id") if isinstance(message, Mapping) else None
    if not isinstance(number, int):
        raise DeliveryFailure("Telegram did not tell the id of the message.")
    return str(number)
