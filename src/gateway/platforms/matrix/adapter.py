"""One account on Matrix. What is said to it and by it is decided in the `wire` modules; here the calls are made, and
what the homeserver answers is told in the words of the face."""

import asyncio
import contextlib
import functools
import hashlib
import logging
import time
import uuid
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from gateway.platforms.face import Core, NeverTaken, NotNow, Part
from gateway.platforms.line_adapter import LineAdapter
from gateway.platforms.matrix import SPEC, wire_out
from gateway.platforms.matrix.account_files import AccountFiles, ListenedTo, MatrixLogin
from gateway.platforms.matrix.link import MatrixLink
from gateway.platforms.matrix.listening import Listener, Progress
from gateway.platforms.matrix.reception import MatrixReception
from gateway.platforms.matrix.refusals import (
    LOGGED_OUT,
    LOGGED_OUT_FIX,
    MatrixKind,
    MatrixTrouble,
    as_failure,
    as_file_failure,
    as_upload_failure,
)
from gateway.platforms.matrix.rooms import KnownRooms
from gateway.platforms.matrix.session import open_session, renew_session
from gateway.platforms.matrix.wire import MatrixSelf, split_chat
from hermes_base.errors import ConfigProblem
from hermes_base.inbound import Address, FileRef

_log = logging.getLogger(__name__)
NOT_CONNECTED_SECONDS = 5.0
LEAVE_SECONDS = 2.0  # for what is being stored when it is disconnected
MOST_EDITED = 500  # messages whose last edit is remembered, so that a repetition of it is one


class MatrixAdapter(LineAdapter):
    def __init__(self, account: str, settings: Mapping[str, Any], home: Path) -> None:
        super().__init__(account, settings, home)
        self.spec = SPEC
        self._files = AccountFiles(home, account)
        self._rooms = KnownRooms()
        self._link: MatrixLink | None = None
        self._login: MatrixLogin | None = None
        self._listener: Listener | None = None
        self._edits: dict[str, tuple[str, str]] = {}  # by message: what its last edit says, and its name
        self._typed: dict[str, float] = {}  # by room: when it was last told that we type

    # --- being there: the homeserver keeps what people write meanwhile

    async def _begin(self, core: Core) -> None:
        try:
            link, login = await open_session(self.settings, self._files)
            self._link, self._login = link, login
            heard = await asyncio.to_thread(self._files.read_heard, login.user)
            progress = await self._sync_first(link, heard, core)
            name, most = await link.find_name(), await link.find_upload_limit()
        except MatrixTrouble as trouble:
            raise as_failure(trouble) from None
        self.spec = replace(SPEC, max_file_bytes=most or SPEC.max_file_bytes)
        for room, room_news in progress.news.joined.items():
            self._rooms.note_news(room, [*room_news.state, *room_news.events], room_news.people)
        me = MatrixSelf(self.account, login.user, name)
        reception = MatrixReception(me, link, core, self._rooms, self.send, self._tell_plainly)
        listener = Listener(link, reception, self._files, self._note_life, self._note_problem, self._renew)
        self._listener = listener
        self._note_life()
        self._keep(functools.partial(listener.run, progress))

    async def _sync_first(self, link: MatrixLink, heard: ListenedTo, core: Core) -> Progress:
        """The first sync. Where it is not kept how far was listened, or the homeserver does not know the place any
        more, the last message that was stored of each room says it."""
        try:
            news = await link.sync(heard.since, first=True)
        except MatrixTrouble as trouble:
            if trouble.kind is not MatrixKind.REFUSED or not heard.since:
                raise
            _log.warning("The homeserver does not know how far was listened (%s); the store says it.", trouble)
            heard = replace(heard, since="", gaps={})  # what is stored of a room ends where its gap begins
            news = await link.sync("", first=True)
        marks: dict[str, set[str]] = {}
        if not heard.since:
            for address, message in (await core.find_last(f"{SPEC.name}:{self.account}")).items():
                marks.setdefault(split_chat(address.chat)[0], set()).add(message)
        return Progress(heard, news, marks)

    async def _part(self) -> None:
        if self._listener is not None:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(LEAVE_SECONDS), self._listener.settling:
                    pass

    async def _close(self) -> None:
        link, self._link = self._link, None
        listener, self._listener = self._listener, None
        if listener is not None:
            listener.close()
        if link is not None:
            await link.close()

    async def _renew(self) -> bool:
        """Another token for the same device; the kept one has run out."""
        link, login = self._link, self._login
        if link is None or login is None:
            return False
        try:
            renewed = await renew_session(link, login, self.settings)
        except (MatrixTrouble, ConfigProblem) as problem:
            _log.warning("The session could not be renewed: %s", problem)
            return False
        if renewed is None:
            return False
        self._login = renewed
        await asyncio.to_thread(self._files.keep_login, renewed)
        _log.info("The session had run out, and was renewed with the password.")
        return True

    # --- messages

    async def send(self, part: Part) -> str:
        _check_length(part)
        with self._told_by_the_face(part.address):
            link, room, part = await self._find_room(part)
            content, locked = wire_out.make_message(part), self._rooms.is_encrypted(room)
            sent = await link.send(room, self._name(part.key), content, locked=locked)
            await self._end_typing(link, room, part)
            return sent

    async def edit(self, platform_id: str, part: Part) -> None:
        if not wire_out.is_message_id(platform_id):
            raise NeverTaken("There is no such message in Matrix.")
        if self._rooms.follow(part.address).chat != part.address.chat:
            raise NeverTaken("The room was replaced by another one, and its messages stay behind.")
        if self._rooms.is_gone(platform_id):
            raise NeverTaken("Somebody took the message away.")
        _check_length(part)
        with self._told_by_the_face(part.address):
            link, room, part = await self._find_room(part)
            content = wire_out.make_edit(platform_id, part)
            name, locked = self._name_edit(platform_id, content), self._rooms.is_encrypted(room)
            await link.send(room, name, content, locked=locked)
            await self._end_typing(link, room, part)

    async def typing(self, address: Address) -> None:
        with self._told_by_the_face(address):
            link, room, _ = await self._find_room(Part(address, ""))
            await link.show_typing(room, is_typing=True)
            self._typed[room] = time.monotonic()

    async def acknowledge(self, address: Address, message: str) -> None:
        """The mark that a message was read. It is no message: an encrypted room gets it, too."""
        link = self._find_link()
        room, _ = split_chat(address.chat)
        if not wire_out.is_message_id(message) or not self._rooms.is_in(room):
            return
        with self._told_by_the_face(address):
            await link.mark_read(room, message, address.thread)

    def reachable(self, address: Address) -> bool:
        return not self._rooms.is_away(address)

    async def _end_typing(self, link: MatrixLink, room: str, part: Part) -> None:
        """The sign would stay for some seconds below what was said. A draft is not all that is to come."""
        if not part.row or self._typed.pop(room, None) is None:
            return
        with contextlib.suppress(MatrixTrouble):
            await link.show_typing(room, is_typing=False)

    async def _tell_plainly(self, room: str, text: str) -> None:
        """The one word that an encrypted room gets in clear: that we cannot encrypt."""
        address = Address(SPEC.name, self.account, room)
        with self._told_by_the_face(address):
            content = wire_out.make_message(Part(address, text, markup="plain"))
            await self._find_link().send(room, self._name(f"cannot read {room}"), content, locked=False)

    # --- files

    async def send_file(self, part: Part, file: FileRef) -> str:
        data = await self._read_upload(file)
        _check_length(part)
        with self._told_by_the_face(part.address):
            link, room, part = await self._find_room(part)
            locked = self._rooms.is_encrypted(room)
            try:
                place = await link.upload(data, file.name, encrypt=locked)
            except MatrixTrouble as trouble:
                raise as_upload_failure(trouble, file.name) from None
            content = wire_out.make_file(part, replace(file, size=len(data)), place)
            return await link.send(room, self._name(part.key), content, locked=locked)

    async def fetch(self, file: FileRef, path: Path) -> None:
        try:
            await self._find_link().fetch(file.remote, path)
        except MatrixTrouble as trouble:
            raise as_file_failure(trouble) from None

    # --- calls

    def _find_link(self) -> MatrixLink:
        if self._link is None:
            raise NotNow("Matrix is not connected.", NOT_CONNECTED_SECONDS)
        return self._link

    async def _find_room(self, part: Part) -> tuple[MatrixLink, str, Part]:
        """The line, the room and the part as they are now. Nothing goes to an encrypted room in clear, and nothing of a
        direct chat to a room where others read it, or its person does not (G12)."""
        link, address = self._find_link(), self._rooms.follow(part.address)
        room, person = split_chat(address.chat)
        if self._rooms.is_encrypted(room) and not link.encrypts:
            raise MatrixTrouble(MatrixKind.UNREADABLE, "")
        if not self._rooms.is_in(room):
            raise MatrixTrouble(MatrixKind.FORBIDDEN, "it is not among its rooms")
        if person and not self._rooms.is_present(room, person):
            self._rooms.note_members(room, await link.list_members(room))
        if person and not self._rooms.is_between(room, person):
            raise MatrixTrouble(MatrixKind.FORBIDDEN, "its person is not alone with Hermes there any more")
        return link, room, replace(part, address=address)

    def _name(self, key: str) -> str:
        """The id of a transaction; a part without a key is sent once."""
        salt = self._login.salt if self._login else ""
        return wire_out.make_name(salt, key or uuid.uuid4().hex)

    def _name_edit(self, message: str, content: wire_out.Content) -> str:
        """The same for a repetition of the last edit. What was said before it may be said again, as another one."""
        says = hashlib.sha256(repr(content).encode("utf-8", "replace")).hexdigest()
        before, name = self._edits.pop(message, ("", ""))
        name = name if before == says else self._name("")
        self._edits[message] = (says, name)
        while len(self._edits) > MOST_EDITED:
            del self._edits[next(iter(self._edits))]
        return name

    @contextlib.contextmanager
    def _told_by_the_face(self, address: Address) -> Iterator[None]:
        try:
            yield
        except MatrixTrouble as trouble:
            failure = as_failure(trouble)
            if isinstance(failure, NotNow) and failure.seconds is None:
                self._rooms.note_away(address)
                _log.warning("Nobody can be reached in %s: %s", address.chat_key, failure)
            if trouble.kind is MatrixKind.TOKEN:
                self._note_problem(f"{LOGGED_OUT} {LOGGED_OUT_FIX}")
            raise failure from None


def _check_length(part: Part) -> None:
    if wire_out.measure_shown(part) > SPEC.max_length:
        raise NeverTaken(f"The text is longer than the {SPEC.max_length} bytes of a message here.")
