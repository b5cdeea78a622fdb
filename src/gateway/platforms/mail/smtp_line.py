"""Hands a mail to an SMTP server, and tells what it said in the words of the face. Each mail has a line of its own."""

import contextlib
import logging
import re
import ssl
from collections.abc import AsyncIterator

import aiosmtplib
from aiosmtplib.errors import (
    SMTPAuthenticationError,
    SMTPConnectError,
    SMTPException,
    SMTPResponseException,
    SMTPServerDisconnected,
    SMTPTimeoutError,
)

from gateway.platforms.face import NeverTaken, NotNow
from gateway.platforms.mail.mail_servers import (
    LOGIN_FAILED,
    LOGIN_FIX,
    OWNERS,
    MailAccount,
    MailTrouble,
    MailTroubleKind,
    make_unencrypted,
    read_failure,
)
from gateway.platforms.mail.wire_out import OutMail
from hermes_base.errors import DeliveryFailure

logging.getLogger("aiosmtplib").setLevel(logging.CRITICAL)
CONNECT_SECONDS = 10.0
DATA_SECONDS = 120.0
OWNER_SECONDS = 300.0  # what the owner has to put right is tried again so seldom
UNREACHED_SECONDS = 5.0
LATER_SECONDS = 60.0  # after a "later" without a time
DAY_LIMIT_SECONDS = 3600.0
#: How long a server asks us to wait, where it says so.
_WAIT = re.compile(r"\b(\d{1,5})\s*(s|sec|secs|seconds?|m|min|mins|minutes?)\b", re.IGNORECASE)
_DAY_LIMIT = ("5.4.5", "4.5.3", "sending limit", "sending quota", "too many messages")
_NO_ANSWER = "The mail server broke off before it said whether it takes the mail."


@contextlib.asynccontextmanager
async def open_smtp(account: MailAccount, tls: ssl.SSLContext) -> AsyncIterator[aiosmtplib.SMTP]:
    """A line on which we are logged in; MailTrouble when there is none."""
    server = account.smtp
    client = aiosmtplib.SMTP(
        hostname=server.host,
        port=server.port,
        use_tls=server.tls,
        start_tls=False,
        tls_context=tls,
        timeout=CONNECT_SECONDS,
        local_hostname=account.domain,
    )
    try:
        await _log_in(client, account, tls)
        yield client
    finally:
        try:
            await client.quit(timeout=2.0)
        except (SMTPException, OSError):
            client.close()


async def _log_in(client: aiosmtplib.SMTP, account: MailAccount, tls: ssl.SSLContext) -> None:
    server = account.smtp
    try:
        await client.connect()
        await client.ehlo()
        if not server.tls and client.supports_extension("starttls"):
            await client.starttls(server_hostname=server.host, tls_context=tls)
            await client.ehlo()
        elif not server.tls and not server.is_this_machine:
            raise make_unencrypted(server)
        await client.login(account.user, account.password)
    except SMTPAuthenticationError as error:
        if 400 <= error.code < 500:
            raise MailTrouble(MailTroubleKind.CUT, f"{server.host} does not log us in now ({error.code}).") from None
        raise MailTrouble(MailTroubleKind.LOGIN, LOGIN_FAILED, LOGIN_FIX) from None
    except SMTPResponseException as error:
        raise MailTrouble(MailTroubleKind.CUT, f"{server.host} turns us away: {_say(error)}.") from None
    except (SMTPConnectError, SMTPTimeoutError, SMTPServerDisconnected) as error:
        raise read_failure(_find_cause(error), server) from None
    except SMTPException:
        raise MailTrouble(
            MailTroubleKind.LOGIN, f"{server.host} offers no way to log in that is known here.", LOGIN_FIX
        ) from None
    except OSError as error:
        raise read_failure(error, server) from None


async def send_mail(account: MailAccount, tls: ssl.SSLContext, mail: OutMail) -> None:
    """Returns when the server has taken it. NotNow and NeverTaken: nothing was sent; DeliveryFailure: perhaps."""
    try:
        async with open_smtp(account, tls) as client:
            await _hand_over(client, account, mail)
    except MailTrouble as trouble:
        seconds = OWNER_SECONDS if trouble.kind in OWNERS else UNREACHED_SECONDS
        raise NotNow(trouble.sentence, seconds, whole_account=True) from trouble


async def _hand_over(client: aiosmtplib.SMTP, account: MailAccount, mail: OutMail) -> None:
    most = client.esmtp_extensions.get("size", "")
    if most.isdigit() and 0 < int(most) < len(mail.data):
        raise NeverTaken(f"The mail is larger than the {int(most) / 1_000_000:.1f} MB that its server takes.")
    options = [f"SIZE={len(mail.data)}"] if "size" in client.esmtp_extensions else []
    try:
        await client.mail(account.address, options=options)
        await client.rcpt(mail.recipient)
    except SMTPResponseException as error:
        raise as_failure(error.code, _say(error), mail.recipient) from None
    except (SMTPException, OSError):
        raise NotNow("The line to the mail server broke.", UNREACHED_SECONDS) from None
    try:
        await client.data(mail.data, timeout=DATA_SECONDS)
    except SMTPResponseException as error:
        raise as_failure(error.code, _say(error), mail.recipient) from None
    except (SMTPException, OSError):
        raise DeliveryFailure(_NO_ANSWER) from None


def as_failure(code: int, said: str, recipient: str) -> DeliveryFailure:
    """What a reply means for a mail: 4xx is later, 5xx is never. Pure."""
    if any(words in said.lower() for words in _DAY_LIMIT):
        return NotNow(
            f"The mail server takes no more mail of ours for now: {said}.", DAY_LIMIT_SECONDS, whole_account=True
        )
    if code in (530, 534, 535, 538):
        return NotNow(f"{LOGIN_FAILED} {LOGIN_FIX}", OWNER_SECONDS, whole_account=True)
    if 400 <= code < 500:
        return NotNow(
            f"The mail server does not take a mail to {recipient} now: {said}.",
            find_wait(said),
            whole_account=code == 421,
        )
    return NeverTaken(f"The mail server does not take the mail to {recipient}: {said}.")


def find_wait(said: str) -> float:
    """The seconds that a server asks for, at least one; or a minute."""
    found = _WAIT.search(said)
    if found is None:
        return LATER_SECONDS
    return max(1.0, float(found[1]) * (60.0 if found[2].lower().startswith("m") else 1.0))


def _find_cause(error: BaseException) -> BaseException:
    cause = error.__cause__ or error
    return TimeoutError() if isinstance(error, SMTPTimeoutError) else cause


def _say(error: SMTPResponseException) -> str:
    said = "".join(char if char.isprintable() else " " for char in f"{error.code} {error.message}")
    return " ".join(said.split())[:200].rstrip(".")
