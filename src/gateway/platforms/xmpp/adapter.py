"""One account on XMPP. What is said to it and by it is decided in the `wire` modules; here a line is kept, and what
becomes of a message is told in the words of the face."""

import asyncio
import contextlib
import logging
import mimetypes
import time
import uuid
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any
from xml.etree.ElementTree import Element

from gateway.platforms.backoff import Pauses
from gateway.platforms.face import Core, NeverTaken, NotNow, Part
from gateway.platforms.line_adapter import LineAdapter
from gateway.platforms.xmpp import SPEC, wire_out
from gateway.platforms.xmpp.refusals import (
    BROKEN,
    BUSY,
    CONFLICT,
    LASTING,
    NOT_CONNECTED,
    NOT_CONNECTED_SECONDS,
    NOT_IN,
    XmppKind,
    XmppTrouble,
    as_failure,
)
from gateway.platforms.xmpp.sent.sent_book import SentBook
from gateway.platforms.xmpp.server.link import Resumption, XmppLink
from gateway.platforms.xmpp.server.xmpp_offers import UploadOffer, XmppOffers, ask_offers, find_upload
from gateway.platforms.xmpp.server.xmpp_uploads import XmppUploads
from gateway.platforms.xmpp.xmpp_desk import XmppDesk
from gateway.platforms.xmpp.xmpp_files import XmppFiles
from gateway.platforms.xmpp.xmpp_settings import XmppSettings, read_settings
from gateway.platforms.xmpp.xmpp_xml import CORRECT
from hermes_base.errors import ConfigProblem, DeliveryFailure
from hermes_base.inbound import Address, FileRef

_log = logging.getLogger(__name__)
FIRST_PAUSE, LONGEST_PAUSE = 1.0, 60.0  # between two tries to connect
STEADY_SECONDS = 10.0  # a line that held so long was no failure: most can be gone on with
CONFIG_SECONDS = 300.0  # what only the owner can put right is tried again so seldom
QUIET_SECONDS, TICK_SECONDS = 25.0, 5.0  # after so long the server is asked whether it is there
SAVE_SECONDS = 0.3  # between two writings of how far was listened; what is not written is read again
SEEK_SECONDS = 300.0  # between two looks for whoever takes files, where somebody who might was silent
MOST_LAST = 5_000  # chats whose last message is known
LEAVE_SECONDS = 2.0  # for what is being stored when it is disconnected


class XmppAdapter(LineAdapter):
    def __init__(self, account: str, settings: Mapping[str, Any], home: Path) -> None:
        super().__init__(account, settings, home)
        self.spec = SPEC
        self._files = XmppFiles(home, account)
        self._book = SentBook()
        self._link: XmppLink | None = None
        self._desk: XmppDesk | None = None
        self._uploads: XmppUploads | None = None
        self._upload = UploadOffer()
        self._read: XmppSettings | None = None
        self._resumption: Resumption | None = None
        self._away: dict[str, set[Address]] = {}  # by chat: what waits there
        self._last: dict[str, str] = {}  # by chat: the last message of ours
        self._line_problem = ""
        self._saving = asyncio.Lock()
        self._core: Core | None = None

    # --- being there

    async def _begin(self, core: Core) -> None:
        self._read, self._core = read_settings(self.settings), core
        kept = await asyncio.to_thread(self._files.read, self._read.jid)
        last = await core.find_last(f"{SPEC.name}:{self.account}")
        self._book = SentBook()  # another process may have had the account meanwhile
        self._desk = XmppDesk(self.account, self._read, core, kept, last, self._book, self)
        self._resumption = None
        await self._open()
        self._keep(self._live_on)
        self._keep(self._save_on, "keeps its place")
        self._keep(self._seek_upload, "looks where files go")
        for run, what in self._desk.list_work():
            self._keep(run, what)

    async def _part(self) -> None:
        """What is being stored has a moment for it."""
        if self._desk is not None and self._kept:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(LEAVE_SECONDS):
                    await self._desk.wait_settled()
        if self._link is not None:
            await self._link.close(farewell=True)

    async def _close(self) -> None:
        link, self._link = self._link, None
        desk, self._desk = self._desk, None
        if link is not None:
            await link.close()
        if desk is not None:
            desk.end()
            await self._save(desk)

    async def _open(self) -> None:
        """A line that has begun, or goes on where the one before broke off; the desk is told."""
        settings, desk = self._read, self._desk
        assert settings is not None
        assert desk is not None
        link = XmppLink(settings, desk.hear, self._note_life, self._note_counted, self._resumption)
        try:
            await link.open()
            if link.resumed:
                for id_ in link.unsent:
                    desk.note_unsent(id_)
            else:
                self._note_offers(await ask_offers(link, settings))
        except XmppTrouble as trouble:
            await link.close()
            what = BUSY if trouble.kind is XmppKind.REFUSED else "The line to {} broke off: {}."
            raise NotNow(what.format(settings.place, trouble), NOT_CONNECTED_SECONDS) from None
        except BaseException:
            await link.close()
            raise
        self._link, self._resumption = link, None
        desk.begin(link)
        self._note_life()

    def _note_offers(self, offers: XmppOffers) -> None:
        """What the server can do decides what we can."""
        assert self._read is not None
        assert self._desk is not None
        self.spec = replace(SPEC, can_edit=self._read.edits, takes_keys=offers.archive, has_history=offers.archive)
        self._note_upload(offers.upload)
        self._desk.has_archive = offers.archive

    def _note_upload(self, upload: UploadOffer) -> None:
        """Where nobody could say, what was known before holds."""
        assert self._read is not None
        if not upload.sure and self._uploads is not None:
            upload = replace(self._upload, sure=False)
        self._upload, self._uploads = upload, XmppUploads(self._read, upload.service)
        most = min(upload.max_file_bytes or SPEC.max_file_bytes, SPEC.max_file_bytes)
        self.spec = replace(self.spec, takes_files=bool(upload.service), max_file_bytes=most)

    async def _seek_upload(self) -> None:
        """A service that was silent at the login may take files when it is back."""
        while True:
            await asyncio.sleep(SEEK_SECONDS)
            link = await self.wait_link()
            if not self._upload.sure and self._read is not None:
                with contextlib.suppress(XmppTrouble):
                    self._note_upload(await find_upload(link, self._read))

    async def _live_on(self) -> None:
        """One line after the other, for ever."""
        assert self._read is not None
        pauses = Pauses(FIRST_PAUSE, LONGEST_PAUSE)
        while True:
            link, pause = self._link, 0.0
            if link is not None:
                began = time.monotonic()
                await self._live(link)
                self._link, self._resumption = None, link.keep()
                await link.close()
                if time.monotonic() - began > STEADY_SECONDS:
                    pauses.reset()
                pause = self._note_end(link)
            try:
                await asyncio.sleep(max(pause, pauses.next()))
                await self._open()
            except ConfigProblem as problem:
                self._note_line(str(problem))
                await asyncio.sleep(CONFIG_SECONDS)
            except DeliveryFailure as problem:
                self._note_line(f"{problem} It is tried again; what people write meanwhile waits on the server.")

    def _note_end(self, link: XmppLink) -> float:
        """Tell why a line ended; the seconds that this asks for."""
        assert self._read is not None
        if link.condition in LASTING:
            self._resumption = None
        if link.condition == "conflict":
            self._note_line(CONFLICT.format(self._read.resource))
        else:
            self._note_line(BROKEN.format(self._read.place, link.why))
        return CONFIG_SECONDS if link.condition in LASTING else 0.0

    async def _live(self, link: XmppLink) -> None:
        """Until the line ends. A quiet one is asked whether it is there."""
        while not link.ended.is_set():
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(TICK_SECONDS):
                    await link.ended.wait()
            if self.silence > QUIET_SECONDS and not link.ended.is_set():
                try:
                    await link.ping()
                except XmppTrouble:
                    link.break_off("nothing was heard of the server")

    async def wait_link(self) -> XmppLink:
        """The line, when there is one."""
        while self._link is None or not self._link.is_open:  # noqa: ASYNC110 - it is made by a task that knows nobody
            await asyncio.sleep(0.1)
        return self._link

    # --- what is kept

    async def _save_on(self) -> None:
        while True:
            desk = self._desk
            assert desk is not None
            await desk.changed.wait()
            desk.changed.clear()
            await self._save(desk)
            await asyncio.sleep(SAVE_SECONDS)

    async def _save(self, desk: XmppDesk) -> None:
        """One after the other: an older state must not come over a newer one."""
        async with self._saving:
            try:
                await asyncio.to_thread(self._files.write, desk.copy_kept())
            except OSError as problem:
                _log.warning("How far was listened could not be kept (%s): it is read again.", problem.strerror)

    # --- what is said of it

    def _note_life(self, problem: str = "", *, hears: bool = False) -> None:
        """C13: something came from the server."""
        del hears  # the rooms say so
        self.last_seen = time.time()
        self._note_line(problem)

    def _note_line(self, problem: str) -> None:
        if problem != self._line_problem:
            self._line_problem = problem
        self.note_change()

    def note_change(self) -> None:
        rooms = self._desk.rooms.problem if self._desk is not None else ""
        self._note_problem(self._line_problem or rooms, hears=not self._line_problem)

    def _note_counted(self, id_: str) -> None:
        """The server has taken a message. A room may not have."""
        chat = self._book.find_chat(id_)
        if chat and (self._desk is None or self._desk.rooms.find(chat) is None):
            self._book.note_arrived(id_, chat)

    # --- messages

    async def send(self, part: Part) -> str:
        _check_length(part)
        with self._told_by_the_face(part.address):
            desk = self._find_desk(part.address)
            id_ = self._name(part.key)
            return await self._deliver(part, desk.make_reply(wire_out.make_message(part, id_), part))

    async def edit(self, platform_id: str, part: Part) -> None:
        if not wire_out.is_message_id(platform_id):
            raise NeverTaken("There is no such message on XMPP.")
        if not part.row and self._last.get(part.address.chat, platform_id) != platform_id:
            # Of such a correction some clients make a new message: a final text once, but not each step of a draft.
            raise NeverTaken("Only the last message is corrected while it grows.")
        _check_length(part)
        with self._told_by_the_face(part.address):
            self._find_desk(part.address)
            id_ = self._name(f"{platform_id}\0{part.text}\0{uuid.uuid4()}")  # one of the same text does no harm
            await self._deliver(replace(part, key=""), wire_out.make_edit(part, id_, platform_id))

    async def _deliver(self, part: Part, stanza: Element) -> str:
        """Send it, unless it stands there. With a key a message in doubt is looked up; where nobody can say, it is sent
        with a mark."""
        link, desk, id_, chat = (
            self._find_link(),
            self._find_desk(part.address),
            stanza.get("id") or "",
            part.address.chat,
        )
        if part.key:
            stands = await desk.find_sent(link, part.address, id_)
            if stands:
                return id_
            if stands is None:
                wire_out.mark_again(stanza)
            if desk.note_try(part.address, id_):
                await self._save(desk)
        self._book.note_try(id_, chat)
        if not stanza.findall(f"{{{CORRECT}}}replace"):
            self._note_last(chat, id_)
        try:
            await link.say(stanza, reflected=part.address.kind != "dm")
        except XmppTrouble as trouble:
            if trouble.kind is not XmppKind.UNSURE:
                desk.note_unsent(id_)
            raise
        self._book.note_arrived(id_, chat)
        return id_

    def _note_last(self, chat: str, id_: str) -> None:
        self._last.pop(chat, None)
        while len(self._last) >= MOST_LAST:
            del self._last[next(iter(self._last))]
        self._last[chat] = id_

    async def typing(self, address: Address) -> None:
        with self._told_by_the_face(address):
            self._find_desk(address)
            self._find_link().put(wire_out.make_typing(address.chat, group=address.kind != "dm"))

    async def acknowledge(self, address: Address, message: str) -> None:
        """The mark that a message was read, where its client wants one."""
        with self._told_by_the_face(address):
            desk, group = self._find_desk(address), address.kind != "dm"
            client = desk.reception.find_client(message)
            if client is not None and client.markable:
                name = message if group else client.id
                self._find_link().put(wire_out.make_marker(address.chat, name, group=group))

    def reachable(self, address: Address) -> bool:
        return address not in self._away.get(address.chat, ())

    # --- files

    async def send_file(self, part: Part, file: FileRef) -> str:
        data = await self._read_upload(file)
        _check_length(part)
        with self._told_by_the_face(part.address):
            link, desk, uploads, id_ = (
                self._find_link(),
                self._find_desk(part.address),
                self._uploads,
                self._name(part.key),
            )
            if uploads is None or not uploads.service:
                raise NeverTaken("The XMPP server takes no files.")
            if part.key and await desk.find_sent(link, part.address, id_):
                return id_
            kind = mimetypes.guess_type(file.name)[0] or "application/octet-stream"
            url = await uploads.put(link, file.name, data, kind)
            if part.text.strip():
                await self._deliver(part, wire_out.make_message(part, id_ + wire_out.CAPTION))
            return await self._deliver(part, wire_out.make_file(part, id_, url))

    async def fetch(self, file: FileRef, path: Path) -> None:
        uploads = self._uploads
        if uploads is None:
            raise NotNow(NOT_CONNECTED, NOT_CONNECTED_SECONDS)
        data = await uploads.fetch(self._find_link(), file.remote)
        await asyncio.to_thread(path.write_bytes, data)

    # --- calls

    def _find_link(self) -> XmppLink:
        if self._link is None or not self._link.is_open:
            raise XmppTrouble(XmppKind.UNSENT)
        return self._link

    def _find_desk(self, address: Address) -> XmppDesk:
        """Who knows the chat; we are in it."""
        if self._desk is None:
            raise XmppTrouble(XmppKind.UNSENT)
        if address.kind != "dm" and not self._desk.rooms.is_in(address.chat):
            self._find_link()
            raise NotNow(NOT_IN.format(address.chat))
        return self._desk

    def _name(self, key: str) -> str:
        """The id of a message; a part without a key is sent once."""
        salt = self._desk.salt if self._desk is not None else ""
        return wire_out.make_id(salt, key or uuid.uuid4().hex)

    @contextlib.contextmanager
    def _told_by_the_face(self, address: Address) -> Iterator[None]:
        try:
            yield
        except (XmppTrouble, NotNow) as trouble:
            failure = as_failure(trouble, address.chat) if isinstance(trouble, XmppTrouble) else trouble
            if isinstance(failure, NotNow) and failure.seconds is None:
                self._away.setdefault(address.chat, set()).add(address)
                _log.warning("Nobody can be reached in %s: %s", address.chat_key, failure)
            raise failure from None

    # --- what the desk asks

    def wake(self, chat: str) -> None:
        """Somebody is there again."""
        for address in self._away.pop(chat, set()):
            if self._core is not None:
                self._core.wake_delivery(address)

    def note_away(self, address: Address) -> None:
        self._away.setdefault(address.chat, set()).add(address)

    def start(self, run: Any, what: str) -> None:
        self._keep(run, what)


def _check_length(part: Part) -> None:
    if wire_out.measure(part) > SPEC.max_length:
        raise NeverTaken(f"The text is longer than the {SPEC.max_length} bytes of a message here.")
