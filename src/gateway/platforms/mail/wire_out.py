"""What Hermes says, as a mail: text and HTML, in its thread and with its subject, marked as sent by a program. Pure."""

import mimetypes
import re
from dataclasses import dataclass
from email.headerregistry import Address as MailName
from email.message import EmailMessage
from email.policy import SMTP
from email.utils import formatdate

from gateway.platforms.face import NeverTaken, Part
from gateway.platforms.mail.auto_mail import LOOP_HEADER
from gateway.platforms.mail.mail_servers import MailAccount
from gateway.platforms.mail.sender_proof import read_address
from gateway.platforms.mail.thread_book import ThreadHead

HTML = "html"
NO_SUBJECT, FIRST_SUBJECT = "your message", "A word from Hermes"
#: Long lines of ids are not turned: clients lose threads over that.
_POLICY = SMTP.clone(max_line_length=990)
_LONGEST_IDS = 900
_PLAIN_ID = re.compile(r"(?!.*=\?)[!-;=?-~]{1,200}@[!-;=?-~]{1,100}")
_REPLY = re.compile(r"(?:re|aw|antw|sv|vs|odp|r|rif|res|ref|回复|回覆)(?:\[\d+\])?\s*[:：]", re.IGNORECASE)
_PRE = re.compile(r"(<pre>.*?</pre>)", re.DOTALL)


@dataclass(frozen=True, slots=True)
class OutMail:
    message: str  # its Message-ID, without brackets
    recipient: str
    data: bytes
    stuffed: bytes  # the same as SMTP wants it: a line that begins with a dot has two, and one dot ends it


def make_mail(
    part: Part, account: MailAccount, message: str, head: ThreadHead | None, file: tuple[str, bytes] | None = None
) -> OutMail:
    """The mail for a part; `head`: of the thread that it belongs to, `file`: name and bytes of what goes along."""
    recipient = read_address(part.address.chat)
    if recipient is None:
        raise NeverTaken("There is no such address.")
    mail = EmailMessage(policy=_POLICY)
    mail["From"] = MailName(clean_line(account.name), addr_spec=account.address)
    mail["To"] = MailName(addr_spec=recipient)
    mail["Subject"] = make_subject(part, head)
    mail["Date"] = formatdate(localtime=False)
    mail["Message-ID"] = f"<{message}>"
    before = list_references(part.reply_to, head)
    if before:
        mail["In-Reply-To"] = f"<{before[-1]}>"
        mail["References"] = " ".join(f"<{one}>" for one in before)
    mail["Auto-Submitted"] = "auto-replied" if before else "auto-generated"
    mail["X-Auto-Response-Suppress"] = "All"
    mail[LOOP_HEADER] = account.address
    plain = part.plain if part.markup == HTML and part.plain else part.text
    mail.set_content(_show_surrogates(plain), charset="utf-8", cte="quoted-printable")
    if part.markup == HTML and part.text:
        mail.add_alternative(_show_surrogates(make_page(part.text)), "html", charset="utf-8", cte="quoted-printable")
    if file is not None:
        name, content = file
        kind = mimetypes.guess_type(name)[0] or "application/octet-stream"
        main, _, sub = kind.partition("/")
        mail.add_attachment(content, main, sub, filename=clean_line(name) or "file")
    data = mail.as_bytes().removesuffix(b"\r\n") + b"\r\n"
    return OutMail(message, recipient, data, data.replace(b"\r\n.", b"\r\n..") + b".\r\n")


def make_subject(part: Part, head: ThreadHead | None) -> str:
    if head is None or not head.subject:
        return f"Re: {NO_SUBJECT}" if part.reply_to or part.address.thread else FIRST_SUBJECT
    subject = clean_line(head.subject)
    return subject if _REPLY.match(subject) else f"Re: {subject}"


def list_references(reply_to: str, head: ThreadHead | None) -> list[str]:
    """The ids of the thread, the mail that is answered last; where they are too many, the first and the newest."""
    known = [one for one in (head.ids if head else ()) if one != reply_to]
    ids = [one for one in [*known, reply_to] if _PLAIN_ID.fullmatch(one)]
    while len(ids) > 2 and sum(len(one) + 3 for one in ids) > _LONGEST_IDS:
        del ids[1]
    return ids


def make_page(text: str) -> str:
    """HTML of ours as a page. Lines end where they ended, in every reader; in code they do so by themselves."""
    bits = [bit if number % 2 else bit.replace("\n", "<br>\n") for number, bit in enumerate(_PRE.split(text))]
    return f"<!DOCTYPE html>\n<html><body>{''.join(bits)}</body></html>\n"


def clean_line(text: str) -> str:
    """On one line, without signs that are not seen, nor what would be read as such signs later: nothing in it can begin
    another field."""
    shown = "".join(char if char.isprintable() else " " for char in _show_surrogates(text))
    return " ".join(shown.replace("=?", "= ?").split())[:200]


def _show_surrogates(text: str) -> str:
    return text.encode("utf-8", "replace").decode()
