"""The e-mail adapter, thin. What comes and goes is decided in the `wire` modules; `mailbox` watches the mailbox."""

import asyncio
import functools
import logging
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from gateway.platforms.face import Core, NeverTaken, NotNow, Part
from gateway.platforms.line_adapter import LineAdapter
from gateway.platforms.mail import SPEC
from gateway.platforms.mail.lines.imap_line import ImapLine, open_line
from gateway.platforms.mail.lines.mail_line import OWNERS, MailTrouble, MailTroubleKind
from gateway.platforms.mail.lines.smtp_line import OWNER_SECONDS, UNREACHED_SECONDS, send_mail
from gateway.platforms.mail.mail_body import MailFile, read_body
from gateway.platforms.mail.mail_servers import MailAccount, make_tls, read_account_settings
from gateway.platforms.mail.mailbox import MailboxWatch, MailDesk, WatchReports
from gateway.platforms.mail.shared_loads import SharedLoads
from gateway.platforms.mail.thread_book import OwnIds, ThreadBook, ThreadHead
from gateway.platforms.mail.wire import MOST_MAIL, read_remote
from gateway.platforms.mail.wire_out import OutMail, make_mail
from hermes_base.errors import ConfigProblem, DeliveryFailure
from hermes_base.inbound import FileRef

_log = logging.getLogger(__name__)
FOLDER = "mail"  # in the home
NOT_CONNECTED_SECONDS = 5.0
FETCHES_AT_ONCE = 2  # each holds a mail in memory
NO_AUTHSERV_ID = "E-mail does not know whose Authentication-Results to believe: platforms.mail.authserv_id is not set."
NO_AUTHSERV_FIX = "`hermes setup mail` finds it; without it nobody could be told from a forger."
GONE = "The mail is not in the mailbox any more, nor is its file."


class MailAdapter(LineAdapter):
    spec = SPEC

    def __init__(self, account: str, settings: Mapping[str, Any], home: Path) -> None:
        super().__init__(account, settings, home)
        self._desk: MailDesk | None = None
        self._watch: MailboxWatch | None = None
        self._line: ImapLine | None = None  # until the watch has it
        self._mails: SharedLoads[tuple[MailFile, ...]] = SharedLoads(FETCHES_AT_ONCE)
        self._troubles = {"in": "", "out": ""}  # what keeps us from reading, and from sending

    # --- being there: mail that comes meanwhile waits on the server

    async def _begin(self, core: Core) -> None:
        account = read_account_settings(self.settings)
        if not account.authserv_id:
            raise ConfigProblem(NO_AUTHSERV_ID, fix=NO_AUTHSERV_FIX)
        desk = await asyncio.to_thread(self._set_up, account)
        reports = WatchReports(self._note_heard, functools.partial(self._note_way, "in"), self.send)
        watch = self._watch = MailboxWatch(self.account, desk, core, reports)
        try:
            self._line = await watch.open()
        except MailTrouble as trouble:
            if trouble.kind in OWNERS:
                raise ConfigProblem(trouble.text, fix=trouble.fix) from None
            raise NotNow(trouble.sentence, UNREACHED_SECONDS) from None
        self._desk = desk
        self._note_heard()
        self._note_way("in", "")
        self._keep(lambda: watch.run(self._take_line()))

    def _set_up(self, account: MailAccount) -> MailDesk:
        book = ThreadBook(self.home / FOLDER / f"{self.account}.box")
        try:
            secret = book.open()
        except OSError as error:
            raise ConfigProblem(
                f"The folder {self.home / FOLDER} cannot be used: {error.strerror}.",
                fix="Check the disk and its rights.",
            ) from error
        return MailDesk(account, make_tls(account), book, OwnIds(secret, account.domain))

    async def _close(self) -> None:
        watch, self._watch, self._desk = self._watch, None, None
        if watch is not None:
            watch.close()
        await self._mails.close()
        line = self._take_line()
        if line is not None:
            await line.close()

    def _take_line(self) -> ImapLine | None:
        """The line that was opened first, and is closed by whoever takes it."""
        line, self._line = self._line, None
        return line

    def _note_heard(self) -> None:
        """C13: the server of the mailbox has answered; that a mail was sent is no sign that we hear."""
        self.last_seen = time.time()

    def _note_way(self, way: str, problem: str) -> None:
        self._troubles[way] = problem
        self._note_problem(" ".join(filter(None, self._troubles.values())), hears=not self._troubles["in"])

    # --- messages

    async def send(self, part: Part) -> str:
        return await self._send(part, None)

    async def send_file(self, part: Part, file: FileRef) -> str:
        data = await self._read_upload(file)
        return await self._send(part, (file.name, data))

    async def _send(self, part: Part, file: tuple[str, bytes] | None) -> str:
        desk = self._find_desk()
        mail, head = await asyncio.to_thread(_write, desk, part, file)
        try:
            await send_mail(desk.account, desk.tls, mail)
        except NotNow as failure:
            if failure.whole_account:
                self._note_way("out", str(failure))
            raise
        except DeliveryFailure:
            self._note_way("out", "")  # it speaks to us
            raise
        self._note_way("out", "")
        if head is not None:
            sent = ThreadHead(head.subject, (*(one for one in head.ids if one != mail.message), mail.message))
            desk.book.note(part.address.chat, part.address.thread, sent)
        return mail.message

    # --- files

    async def fetch(self, file: FileRef, path: Path) -> None:
        desk, wanted = self._find_desk(), read_remote(file.remote)
        if wanted is None:
            raise NeverTaken(GONE)
        validity, uid, number = wanted
        files = await self._mails.share((validity, uid), lambda: _fetch_files(desk, validity, uid))
        if number >= len(files):
            raise NeverTaken(GONE)
        await asyncio.to_thread(path.write_bytes, files[number].data)

    def _find_desk(self) -> MailDesk:
        if self._desk is None:
            raise NotNow("E-mail is not connected.", NOT_CONNECTED_SECONDS)
        return self._desk


async def _fetch_files(desk: MailDesk, validity: int, uid: int) -> tuple[MailFile, ...]:
    try:
        line = await open_line(desk.account, desk.tls)
        try:
            box = await line.open_box(desk.account.mailbox, to_write=False)
            mail = await line.fetch_whole(uid, MOST_MAIL) if box.validity == validity else None
        finally:
            await line.close()
    except MailTrouble as trouble:
        if trouble.kind is MailTroubleKind.REFUSED:
            raise DeliveryFailure(trouble.sentence) from None
        raise NotNow(trouble.sentence, OWNER_SECONDS if trouble.kind in OWNERS else UNREACHED_SECONDS) from None
    if mail is None:
        raise NeverTaken(GONE)
    return (await asyncio.to_thread(read_body, mail.data)).files


def _write(desk: MailDesk, part: Part, file: tuple[str, bytes] | None) -> tuple[OutMail, ThreadHead | None]:
    """The mail, and the head of its thread. A repetition has the id of the first, although its text says that it is
    one."""
    is_new = not part.address.thread and not part.reply_to
    head = None if is_new else desk.book.find(part.address.chat, part.address.thread)
    said = part.outgoing.text if part.outgoing is not None else part.text
    message = desk.ids.make(part.address.thread, part.key, f"{part.address.chat}\n{said}", part.question)
    return make_mail(part, desk.account, message, head, file), head
