"""A line to an IMAP server: one command at a time, each with a limit in time, and the wait for new mail.

The library of Python cannot wait for mail (IDLE) before 3.14, and blocks a thread for as long as it waits; this needs
little of IMAP, and all of it on the event loop.
"""

import asyncio
import base64
import logging
import re
import ssl
from collections.abc import Sequence
from datetime import date

from gateway.platforms.mail.lines.imap_wire import (
    FetchedMail,
    ImapAnswer,
    OpenedBox,
    drop_literal,
    find_literal,
    quote,
    read_fetched,
    read_fullness,
    read_numbers,
    write_date,
)
from gateway.platforms.mail.lines.mail_line import (
    LOGIN_FAILED,
    LOGIN_FIX,
    SILENT,
    MailLine,
    MailTrouble,
    MailTroubleKind,
    make_unencrypted,
    open_streams,
    say_on_one_line,
)
from gateway.platforms.mail.mail_servers import MailAccount

_log = logging.getLogger(__name__)
ANSWER_SECONDS, BODY_SECONDS = 30.0, 120.0
MOST_LITERAL = 64 << 20
MOST_AT_ONCE = 50  # heads in one command
MOST_HEAD = 128 << 10  # bytes of a head
PASSING = frozenset({"UNAVAILABLE", "INUSE", "LIMIT"})  # a login that fails for these is no wrong password (RFC 9051)


class ImapLine(MailLine):
    """One that speaks IMAP."""

    _tags = 0
    _abilities: frozenset[str] = frozenset()
    _has_news = False  # it told of new mail since we looked

    @property
    def can_idle(self) -> bool:
        return "IDLE" in self._abilities

    # --- beginning

    async def greet(self, account: MailAccount, tls: ssl.SSLContext) -> None:
        """TLS where it is not there yet, and the login."""
        greeting = await self._read_answer(ANSWER_SECONDS)
        if not greeting.is_untagged("OK"):
            raise MailTrouble(MailTroubleKind.CUT, f"{account.imap.host} turns us away: {_say(greeting)}.")
        await self._ask_abilities()
        if not account.imap.tls and "STARTTLS" in self._abilities:
            await self._command("STARTTLS")
            await self.begin_tls(tls)
            await self._ask_abilities()
        elif not account.imap.tls and not account.imap.is_this_machine:
            raise make_unencrypted(account.imap)
        await self._log_in(account)
        await self._ask_abilities()

    async def _log_in(self, account: MailAccount) -> None:
        try:
            if "AUTH=PLAIN" in self._abilities:
                secret = base64.b64encode(f"\0{account.user}\0{account.password}".encode()).decode()
                await self._command("AUTHENTICATE PLAIN", continued=secret)
            else:
                await self._command(f"LOGIN {quote(account.user)} {quote(account.password)}")
        except ValueError:
            raise MailTrouble(
                MailTroubleKind.LOGIN, "The mail server takes no such signs in a password.", LOGIN_FIX
            ) from None
        except MailTrouble as trouble:
            if trouble.kind is not MailTroubleKind.REFUSED or trouble.code in PASSING:
                raise
            raise MailTrouble(MailTroubleKind.LOGIN, LOGIN_FAILED, LOGIN_FIX) from None

    async def _ask_abilities(self) -> None:
        found = (answer for answer in await self._command("CAPABILITY") if answer.is_untagged("CAPABILITY"))
        self._abilities = frozenset(word.upper() for answer in found for word in answer.text.split())

    async def open_box(self, name: str, *, to_write: bool = True) -> OpenedBox:
        try:
            answers = await self._command(f"{'SELECT' if to_write else 'EXAMINE'} {quote(name)}")
        except ValueError:
            raise MailTrouble(MailTroubleKind.REFUSED, "platforms.mail.mailbox is no name that IMAP takes.") from None
        codes = {
            name: next((code for answer in answers if (code := answer.read_code(name)) is not None), "")
            for name in ("UIDVALIDITY", "UIDNEXT")
        }
        if not codes["UIDVALIDITY"].isdigit():
            raise MailTrouble(MailTroubleKind.REFUSED, "The mail server gives no numbers that last (UIDVALIDITY).")
        next_uid = codes["UIDNEXT"]
        if not next_uid.isdigit():
            every = read_numbers(await self._command("UID SEARCH UID *"))
            next_uid = str(max(every, default=0) + 1)
        return OpenedBox(int(codes["UIDVALIDITY"]), int(next_uid))

    async def measure_fullness(self, name: str) -> float:
        """How much of its room the mailbox has used, up to 1; 0: that is not known, or not for us to know."""
        if "QUOTA" not in self._abilities:
            return 0.0
        try:
            return read_fullness(await self._command(f"GETQUOTAROOT {quote(name)}"))
        except ValueError:
            return 0.0
        except MailTrouble as trouble:
            if trouble.kind is not MailTroubleKind.REFUSED:
                raise
            self._abilities -= {"QUOTA"}
            return 0.0

    # --- mail

    async def find_after(self, uid: int) -> list[int]:
        """The mails that came later. `*` is the last one even where its number is smaller."""
        self._has_news = False
        found = read_numbers(await self._command(f"UID SEARCH UID {uid + 1}:*"))
        return [one for one in found if one > uid]

    async def find_since(self, day: date) -> list[int]:
        return read_numbers(await self._command(f"UID SEARCH SINCE {write_date(day)}"))

    async def fetch_heads(self, uids: Sequence[int]) -> list[FetchedMail]:
        named = ",".join(map(str, uids))
        return await self._fetch(f"{named} (UID RFC822.SIZE INTERNALDATE BODY.PEEK[HEADER]<0.{MOST_HEAD}>)")

    async def fetch_whole(self, uid: int, most: int) -> FetchedMail | None:
        """The mail, as far as this many bytes; None: it is not there any more."""
        found = await self._fetch(f"{uid} (UID RFC822.SIZE INTERNALDATE BODY.PEEK[]<0.{most}>)")
        return next((mail for mail in found if mail.uid == uid), None)

    async def _fetch(self, asked: str) -> list[FetchedMail]:
        answers = [one for one in await self._command(f"UID FETCH {asked}", BODY_SECONDS) if one.is_untagged("FETCH")]
        try:
            found = [mail for answer in answers if (mail := read_fetched(answer)) is not None]
        except ValueError as error:
            raise MailTrouble(MailTroubleKind.REFUSED, f"The mail server says what cannot be read ({error}).") from None
        return sorted(found, key=lambda mail: mail.uid)

    async def mark_seen(self, uid: int) -> None:
        await self._command(f"UID STORE {uid} +FLAGS.SILENT (\\Seen)")

    async def check(self) -> None:
        """Servers look for new mail with this, and not with each search."""
        await self._command("NOOP")

    async def wait_for_mail(self, seconds: float) -> None:
        """Until the server tells of new mail, or this time is over; then it has answered once more. It may also have
        told of it since the last look, with the answer to something else. A server that does not let us wait cannot
        idle, whatever it has said: it is asked now and then, as others are."""
        if self._has_news:
            return
        tag = self._make_tag()
        await self.write(f"{tag} IDLE\r\n".encode())
        while (answer := await self._read_answer(ANSWER_SECONDS)).words[0] == "*":
            pass
        if answer.words[0] != "+":
            _log.info("The mail server does not let us wait: %s.", _say(answer))
            self._abilities -= {"IDLE"}
            return
        try:
            async with asyncio.timeout(seconds):
                while not self._has_news:
                    await self._read_answer(2 * seconds)
        except TimeoutError:
            pass
        await self.write(b"DONE\r\n")
        await self._read_until(tag, ANSWER_SECONDS)

    # --- commands

    async def _command(self, text: str, seconds: float = ANSWER_SECONDS, *, continued: str = "") -> list[ImapAnswer]:
        """The answers; MailTrouble when the server says no, or nothing. `continued`: what it asks for in between."""
        tag = self._make_tag()
        await self.write(f"{tag} {text}\r\n".encode())
        return await self._read_until(tag, seconds, continued)

    async def _read_until(self, tag: str, seconds: float, continued: str = "") -> list[ImapAnswer]:
        answers: list[ImapAnswer] = []
        while True:
            answer = await self._read_answer(seconds)
            first = answer.words[0]
            if first == "+" and continued:
                await self.write(f"{continued}\r\n".encode())
                continued = ""
            elif first == tag:
                if answer.words[1:2] and answer.words[1].upper() == "OK":
                    return [*answers, answer]
                said = f"The mail server refuses: {_say(answer)}."
                raise MailTrouble(MailTroubleKind.REFUSED, said, code=answer.code)
            elif answer.is_untagged("BYE"):
                raise MailTrouble(MailTroubleKind.CUT, f"The mail server hangs up: {_say(answer)}.")
            else:
                answers.append(answer)

    def _make_tag(self) -> str:
        self._tags += 1
        return f"h{self._tags}"

    async def _read_answer(self, seconds: float) -> ImapAnswer:
        """One answer with its literals."""
        pieces: list[bytes] = []
        try:
            async with asyncio.timeout(seconds):
                while (size := find_literal(line := await self.read_line())) is not None:
                    if size > MOST_LITERAL:
                        raise MailTrouble(MailTroubleKind.CUT, "The mail server sends more than was asked for.")
                    pieces += [drop_literal(line), await self.read_bytes(size)]
        except TimeoutError:
            raise MailTrouble(MailTroubleKind.CUT, SILENT) from None
        answer = ImapAnswer((*pieces, line))
        self._has_news = self._has_news or answer.is_untagged("EXISTS")
        return answer


async def open_line(account: MailAccount, tls: ssl.SSLContext) -> ImapLine:
    """A line on which we are logged in; MailTrouble when there is none."""
    line = ImapLine(account.imap, *await open_streams(account.imap, tls))
    try:
        await line.greet(account, tls)
    except BaseException:
        await line.close()
        raise
    return line


def _say(answer: ImapAnswer) -> str:
    return say_on_one_line(re.sub(r"^(?:OK|NO|BAD|BYE|PREAUTH)\s+", "", answer.text, flags=re.IGNORECASE))
