"""One bot on Discord. What is said to it and by it is decided in the `wire` modules; here the calls are made, and what
Discord answers is told in the words of the face."""

import asyncio
import contextlib
import logging
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from gateway.platforms.discord import SPEC, wire_out
from gateway.platforms.discord.channel_book import ChannelBook
from gateway.platforms.discord.link import DiscordLink, choose_intents, read_token
from gateway.platforms.discord.reception import KINDS, DiscordReception
from gateway.platforms.discord.refusals import BAD_TOKEN, BAD_TOKEN_FIX, DiscordTrouble, Trouble, as_failure
from gateway.platforms.discord.session_line import SessionLine
from gateway.platforms.discord.wire import DiscordSelf, OddDiscordEvent, find_file_url
from gateway.platforms.face import Core, MenuCommand, NeverTaken, NotNow, Part
from gateway.platforms.line_adapter import LineAdapter
from hermes_base.errors import ConfigProblem, DeliveryFailure
from hermes_base.inbound import Address, FileRef
from hermes_base.text.file_names import make_safe_name

_log = logging.getLogger(__name__)
NOT_CONNECTED_SECONDS = 5.0
GONE_FILE = "Discord does not have the file any more."


class DiscordAdapter(LineAdapter):
    def __init__(self, account: str, settings: Mapping[str, Any], home: Path) -> None:
        super().__init__(account, settings, home)
        self.spec = replace(SPEC, has_receipts=settings.get("reactions") is not False)
        self._me = DiscordSelf(account, "", "", frozenset(), {})
        self._link: DiscordLink | None = None
        self._line: SessionLine | None = None
        self._reception: DiscordReception | None = None
        self._book = ChannelBook()
        self._line_problem = self._call_problem = ""

    # --- being there: what people write meanwhile is in the history of their channels

    async def _begin(self, core: Core) -> None:
        token, base_url = read_token(self.settings.get("token")), str(self.settings.get("base_url") or "")
        intents = choose_intents(self.settings.get("message_content") is not False)
        link = self._link = DiscordLink(token, base_url, intents, self._hear, KINDS)
        await self._introduce(link)
        reception = self._reception = DiscordReception(self._describe_me, link, core, self._book, self.send)
        line = self._line = SessionLine(link, self._note_heard, self._note_line)
        await line.open()
        self._keep(reception.run, "hears")
        self._keep(line.run)

    async def _close(self) -> None:
        reception, self._reception = self._reception, None
        link, self._link, self._line = self._link, None, None
        if reception is not None:
            await reception.close()
        if link is not None:
            await link.close()

    async def _introduce(self, link: DiscordLink) -> None:
        """Who we are there; ConfigProblem when Discord does not know the token."""
        try:
            found = await link.login()
        except DiscordTrouble as trouble:
            if trouble.kind is Trouble.TOKEN:
                raise ConfigProblem(BAD_TOKEN, fix=BAD_TOKEN_FIX) from None
            raise as_failure(trouble) from None
        self._me = replace(self._me, id=str(found.get("id")), application=str(found.get("id")))

    def _hear(self, kind: str, data: Any) -> None:
        """Called by the SDK for each event; it takes no time."""
        self._note_calls("")
        if kind == "READY" and isinstance(told := data.get("application"), Mapping):
            self._me = replace(self._me, application=str(told.get("id") or self._me.id))
        if self._line is not None:
            self._line.note(kind)
        if self._reception is not None:
            self._reception.hear(kind, data)

    def _describe_me(self) -> DiscordSelf:
        roles = self._reception.roles if self._reception else frozenset()
        return replace(self._me, roles=roles)

    def _note_heard(self) -> None:
        """A sign of life; what is wrong with the session is told by the line."""
        self.last_seen = time.time()

    def _note_line(self, problem: str) -> None:
        self._line_problem = problem
        self._note_problem(problem or self._call_problem)

    def _note_calls(self, problem: str) -> None:
        """What a call has shown; the next one that works, or an event, shows that it is over."""
        self._call_problem = problem
        self._note_problem(self._line_problem or problem)

    # --- messages

    async def send(self, part: Part) -> str:
        _check_length(part)
        with self._told_by_the_face(part.address):
            return _read_id(await self._call(wire_out.make_message(part)))

    async def edit(self, platform_id: str, part: Part) -> None:
        if not wire_out.is_message_id(platform_id):
            raise NeverTaken("There is no such message in Discord.")
        _check_length(part)
        with self._told_by_the_face(part.address):
            await self._call(wire_out.make_edit(platform_id, part))

    async def typing(self, address: Address) -> None:
        with self._told_by_the_face(address):
            await self._call(wire_out.make_typing(address))

    async def acknowledge(self, address: Address, message: str) -> None:
        """A channel where the bot may not put signs is not asked again."""
        if not wire_out.is_message_id(message) or not self._book.takes_signs(address):
            return
        try:
            await self._call(wire_out.make_reaction(address, message))
        except DiscordTrouble as trouble:
            if trouble.kind not in (Trouble.FORBIDDEN, Trouble.MISSING, Trouble.REFUSED):
                raise as_failure(trouble) from None
            _log.info("A message in %s takes no reaction: %s", address.chat_key, trouble)
            if trouble.kind is Trouble.FORBIDDEN:  # of the channel; a message that was deleted says nothing on others
                self._book.note_unsigned(address)

    async def offer_commands(self, commands: Sequence[MenuCommand]) -> None:
        call, names = wire_out.make_menu(self._me.application, commands)
        self._me = replace(self._me, commands=names)
        try:
            await self._call(call)
        except DiscordTrouble as trouble:
            raise as_failure(trouble) from None

    def reachable(self, address: Address) -> bool:
        return not self._book.is_away(address)

    # --- files

    async def send_file(self, part: Part, file: FileRef) -> str:
        data = await self._read_upload(file)
        _check_length(part)
        name = make_safe_name(file.name)
        with self._told_by_the_face(part.address):
            return _read_id(await self._call(wire_out.make_message(part, name), data=data, name=name))

    async def fetch(self, file: FileRef, path: Path) -> None:
        """Addresses of files are good for a day only: where it is now is asked first."""
        channel, _, rest = file.remote.partition("/")
        message, _, attachment = rest.partition("/")
        if not all(map(wire_out.is_message_id, (channel, message, attachment))):
            raise NeverTaken(GONE_FILE)
        try:
            url = find_file_url(await self._call(wire_out.make_message_look(channel, message)), attachment)
            if not url:
                raise NeverTaken(GONE_FILE)
            data = await self._find_link().fetch(url)
        except OddDiscordEvent:
            raise NeverTaken(GONE_FILE) from None
        except DiscordTrouble as trouble:
            if trouble.kind in (Trouble.FORBIDDEN, Trouble.MISSING):
                raise NeverTaken(GONE_FILE) from None
            raise as_failure(trouble) from None
        await asyncio.to_thread(path.write_bytes, data)

    # --- calls

    def _find_link(self) -> DiscordLink:
        if self._link is None:
            raise NotNow("Discord is not connected.", NOT_CONNECTED_SECONDS)
        return self._link

    async def _call(self, call: wire_out.DiscordCall, *, data: bytes = b"", name: str = "") -> Any:
        try:
            found = await self._find_link().call(call, data=data, name=name)
        except DiscordTrouble as trouble:
            if trouble.kind is Trouble.TOKEN:
                self._note_calls(f"{BAD_TOKEN} {BAD_TOKEN_FIX}")
            raise
        self._note_calls("")
        return found

    @contextlib.contextmanager
    def _told_by_the_face(self, address: Address) -> Iterator[None]:
        try:
            yield
        except DiscordTrouble as trouble:
            failure = as_failure(trouble, in_thread=bool(address.thread))
            if isinstance(failure, NotNow) and failure.seconds is None:
                self._book.note_away(address)
                _log.warning("Nobody can be reached in %s: %s", address.chat_key, failure)
            raise failure from None


def _check_length(part: Part) -> None:
    if wire_out.measure_text(part) > wire_out.MOST_TEXT:
        raise NeverTaken(f"The text is longer than the {wire_out.MOST_TEXT} signs of a message in Discord.")


def _read_id(message: Any) -> str:
    """The id of a message that was sent; an answer without one says nothing on whether it was."""
    number = message.get("id") if isinstance(message, Mapping) else None
    if not number:
        raise DeliveryFailure("Discord did not tell the id of the message.")
    return str(number)
