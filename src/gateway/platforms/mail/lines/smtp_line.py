"""Hands a mail to an SMTP server (RFC 5321), and tells what it said in the words of the face. Each mail has a line of
its own.

The library of Python blocks a thread, and those for the event loop work on a whole mail at once, which holds it up for
a third of a second where the mail is long. This needs little of SMTP.
"""

import asyncio
import base64
import re
import ssl
from dataclasses import dataclass

from gateway.platforms.face import NeverTaken, NotNow
from gateway.platforms.mail.lines.mail_line import (
    LOGIN_FAILED,
    LOGIN_FIX,
    OWNERS,
    SILENT,
    MailLine,
    MailTrouble,
    MailTroubleKind,
    make_unencrypted,
    open_streams,
    say_on_one_line,
)
from gateway.platforms.mail.mail_servers import MailAccount
from gateway.platforms.mail.wire_out import OutMail
from hermes_base.errors import DeliveryFailure

ANSWER_SECONDS, DATA_SECONDS, QUIT_SECONDS = 30.0, 300.0, 2.0
MOST_LINES = 200  # of one reply
OWNER_SECONDS = 300.0  # what the owner has to put right is tried again so seldom
UNREACHED_SECONDS = 5.0
LATER_SECONDS = 60.0  # after a "later" without a time
DAY_LIMIT_SECONDS = 3600.0
LONGEST_WAIT = 3600.0  # whatever a server asks for: it is asked again after that
#: How long a server asks us to wait, where it says so. An M alone may be a size.
_WAIT = re.compile(r"\b(\d{1,9}) ?(?:(s|(?i:secs?|seconds?))|((?i:mins?|minutes?))|((?i:hours?)))\b")
_UNIT_SECONDS = (1.0, 60.0, 3600.0)
#: The status stands at the beginning (RFC 2034); digits like these further on may be those of an address.
_STATUS = re.compile(r"([245])\.(\d{1,3})\.(\d{1,3})(?!\d|\.\d)")
#: By which providers say that an account has sent as much as it may.
_LIMIT_STATUSES = frozenset({"4.5.3", "5.4.5"})
_LIMIT_WORDS = re.compile(r"\b(?:sending (?:limit|quota)|too many messages)\b", re.IGNORECASE)
_QUOTED = re.compile(r"<[^<>]*>")  # what a reply repeats of ours
_OF_RECIPIENT = ("1", "2")  # the middle of a status: it is about an address, or the mailbox behind it (RFC 3463)
_NO_LOGIN = frozenset({530, 534, 535, 538})
_REPLY = re.compile(rb"([2-5][0-9]{2})([ -]?)(.*)", re.DOTALL)
_NO_ANSWER = "The mail server broke off before it said whether it takes the mail."


@dataclass(frozen=True, slots=True)
class SmtpReply:
    code: int
    lines: tuple[str, ...]

    @property
    def said(self) -> str:
        return say_on_one_line(f"{self.code} {' '.join(self.lines)}")

    @property
    def status(self) -> str:
        """Its enhanced status, such as 5.1.1; empty: it has none, or one that contradicts its code."""
        found = _STATUS.match(self.lines[0]) if self.lines else None
        return found[0] if found and found[1] == str(self.code)[0] else ""


class SmtpLine(MailLine):
    """One that speaks SMTP."""

    abilities: dict[str, str] = {}  # what it says that it can do, in small letters

    async def greet(self, account: MailAccount, tls: ssl.SSLContext) -> None:
        """TLS where it is not there yet, and the login."""
        self._expect(await self._read_reply(ANSWER_SECONDS), 220)
        await self._say_hello(account)
        if not self.server.tls and "starttls" in self.abilities:
            self._expect(await self._command("STARTTLS"), 220)
            await self.begin_tls(tls)
            await self._say_hello(account)
        elif not self.server.tls and not self.server.is_this_machine:
            raise make_unencrypted(self.server)
        await self._log_in(account)

    async def _say_hello(self, account: MailAccount) -> None:
        reply = self._expect(await self._command(f"EHLO {account.domain}"), 250)
        words = (line.lower().partition(" ") for line in reply.lines[1:])
        self.abilities = {name: rest for name, _, rest in words}

    async def _log_in(self, account: MailAccount) -> None:
        offered = self.abilities.get("auth", "").split()
        if "plain" in offered:
            reply = await self._command("AUTH PLAIN " + _encode(f"\0{account.user}\0{account.password}"))
        elif "login" in offered:
            reply = await self._command("AUTH LOGIN")
            for word in (account.user, account.password):
                reply = await self._command(_encode(word)) if reply.code == 334 else reply
        else:
            raise MailTrouble(
                MailTroubleKind.LOGIN, f"{self.server.host} offers no way to log in that is known here.", LOGIN_FIX
            )
        if reply.code >= 500:
            raise MailTrouble(MailTroubleKind.LOGIN, LOGIN_FAILED, LOGIN_FIX)
        self._expect(reply, 235)

    async def hand_over(self, account: MailAccount, mail: OutMail) -> None:
        """Returns when the server has taken it."""
        most = self.abilities.get("size", "")
        if most.isdigit() and 0 < int(most) < len(mail.data):
            raise NeverTaken(f"The mail is larger than the {int(most) / 1_000_000:.1f} MB that its server takes.")
        size = f" SIZE={len(mail.data)}" if "size" in self.abilities else ""
        for command, code in (
            (f"MAIL FROM:<{account.address}>{size}", 250),
            (f"RCPT TO:<{mail.recipient}>", 250),
            ("DATA", 354),
        ):
            reply = await self._command(command)
            if reply.code != code and not (code == 250 and 200 <= reply.code < 300):
                raise as_failure(reply, mail.recipient)
        try:
            await self.write(mail.stuffed, DATA_SECONDS)
            reply = await self._read_reply(DATA_SECONDS)
        except MailTrouble:
            raise DeliveryFailure(_NO_ANSWER) from None
        if reply.code >= 300:
            raise as_failure(reply, mail.recipient)

    async def say_goodbye(self) -> None:
        try:
            async with asyncio.timeout(QUIT_SECONDS):
                await self._command("QUIT")
        except (MailTrouble, TimeoutError):
            pass  # what there was to do is done
        await self.close()

    async def _command(self, text: str) -> SmtpReply:
        await self.write(f"{text}\r\n".encode())
        return await self._read_reply(ANSWER_SECONDS)

    async def _read_reply(self, seconds: float) -> SmtpReply:
        lines: list[str] = []
        try:
            async with asyncio.timeout(seconds):
                while len(lines) < MOST_LINES:
                    found = _REPLY.fullmatch(await self.read_line())
                    if found is None:
                        break
                    lines.append(found[3].decode("utf-8", "replace"))
                    if found[2] != b"-":
                        return SmtpReply(int(found[1]), tuple(lines))
        except TimeoutError:
            raise MailTrouble(MailTroubleKind.CUT, SILENT) from None
        raise MailTrouble(MailTroubleKind.CUT, f"{self.server.host} says what cannot be read.")

    def _expect(self, reply: SmtpReply, code: int) -> SmtpReply:
        if reply.code != code:
            raise MailTrouble(MailTroubleKind.CUT, f"{self.server.host} turns us away: {reply.said}.")
        return reply


async def open_smtp(account: MailAccount, tls: ssl.SSLContext) -> SmtpLine:
    """A line on which we are logged in; MailTrouble when there is none."""
    line = SmtpLine(account.smtp, *await open_streams(account.smtp, tls))
    try:
        await line.greet(account, tls)
    except BaseException:
        await line.close()
        raise
    return line


async def send_mail(account: MailAccount, tls: ssl.SSLContext, mail: OutMail) -> None:
    """Returns when the server has taken it. NotNow and NeverTaken: nothing was sent; DeliveryFailure: perhaps."""
    try:
        line = await open_smtp(account, tls)
        try:
            await line.hand_over(account, mail)
        finally:
            await line.say_goodbye()
    except MailTrouble as trouble:
        seconds = OWNER_SECONDS if trouble.kind in OWNERS else UNREACHED_SECONDS
        raise NotNow(trouble.sentence, seconds, whole_account=True) from None


def as_failure(reply: SmtpReply, recipient: str) -> DeliveryFailure:
    """What a reply means for a mail: 4xx is later, 5xx is never."""
    said = reply.said
    if is_account_limit(reply):
        sentence = f"The mail server takes no more mail of ours for now: {said}."
        return NotNow(sentence, DAY_LIMIT_SECONDS, whole_account=True)
    if reply.code in _NO_LOGIN:
        return NotNow(f"{LOGIN_FAILED} {LOGIN_FIX}", OWNER_SECONDS, whole_account=True)
    if reply.code < 500:
        sentence = f"The mail server does not take a mail to {recipient} now: {said}."
        return NotNow(sentence, find_wait(said), whole_account=reply.code == 421)
    return NeverTaken(f"The mail server does not take the mail to {recipient}: {said}.")


def is_account_limit(reply: SmtpReply) -> bool:
    """Whether it is about all that we send. What is about one recipient must not hold up the mail to all others."""
    status = reply.status
    if status in _LIMIT_STATUSES:
        return True
    is_of_recipient = status[2:].partition(".")[0] in _OF_RECIPIENT
    return not is_of_recipient and bool(_LIMIT_WORDS.search(_QUOTED.sub("", " ".join(reply.lines))))


def find_wait(said: str) -> float:
    """The seconds that a server asks for, between one and an hour; or a minute."""
    found = _WAIT.search(said)
    if found is None:
        return LATER_SECONDS
    unit = next(seconds for seconds, named in zip(_UNIT_SECONDS, found.groups()[1:], strict=True) if named)
    return min(max(1.0, float(found[1]) * unit), LONGEST_WAIT)


def _encode(text: str) -> str:
    return base64.b64encode(text.encode()).decode()
