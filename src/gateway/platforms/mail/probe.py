"""Tries a mailbox for whoever sets it up: reads its folder, logs in where mail is sent, says whose word is believed."""

import asyncio
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from gateway.platforms.id_forms import refuse_own
from gateway.platforms.mail import SPEC
from gateway.platforms.mail.lines.imap_line import ImapLine, open_line
from gateway.platforms.mail.lines.mail_line import MailTrouble, MailTroubleKind
from gateway.platforms.mail.lines.smtp_line import open_smtp
from gateway.platforms.mail.mail_head import MailHead
from gateway.platforms.mail.mail_servers import make_tls, read_account_settings
from gateway.platforms.mail.wire import find_authserv_ids
from hermes_base.errors import ConfigProblem

LOOKED_AT = 20  # of the newest mails


async def probe(settings: Mapping[str, Any], home: Path) -> str:
    """Which mailbox it is, in a sentence; ConfigProblem when it cannot be used."""
    del home
    account = read_account_settings(settings)
    tls = await asyncio.to_thread(make_tls, account)
    try:
        line = await open_line(account, tls)
        try:
            box = await line.open_box(account.mailbox, to_write=False)
            newest = (await line.find_after(max(0, box.next_uid - 1 - LOOKED_AT)))[-LOOKED_AT:]
            heads = [head for uid in newest for head in await _fetch_head(line, uid)]
        finally:
            await line.close()
        await (await open_smtp(account, tls)).say_goodbye()
    except MailTrouble as trouble:
        fix = trouble.fix or "Check the addresses of the servers and the network, and try again."
        raise ConfigProblem(trouble.text, fix=fix) from None
    found = find_authserv_ids(heads)
    if not account.authserv_id:
        raise ConfigProblem("It is not set whose Authentication-Results are believed.", fix=advise(found))
    if found and account.authserv_id not in found:
        raise ConfigProblem(
            f"No sender would be believed: the newest mails name {', '.join(found[:3])} in Authentication-Results, "
            f"and not {account.authserv_id}.",
            fix=advise(found),
        )
    refuse_own(SPEC.person_ids, settings, account.address)
    comes = "tells of new mail by itself" if line.can_idle else "is asked for new mail every half minute"
    return (
        f"It is {account.address}; the server {comes}. Senders count whom {account.authserv_id} has proven"
        f" (Authentication-Results)."
    )


async def _fetch_head(line: ImapLine, uid: int) -> list[MailHead]:
    """One by one: a mail that the server does not hand out keeps nobody from setting up the mailbox."""
    try:
        return [MailHead(mail.data) for mail in await line.fetch_heads([uid])]
    except MailTrouble as trouble:
        if trouble.kind is not MailTroubleKind.REFUSED:
            raise
        return []


def advise(found: list[str]) -> str:
    """What to set, from what the newest mails hold."""
    if found:
        return f"The newest mails in the mailbox name {found[0]} on top: if that is your mail server, answer with it."
    return (
        "No mail in the mailbox has such a field. Send one to it from elsewhere and look at its source: if there is no "
        "field Authentication-Results, the server checks nobody, and Hermes cannot know who writes."
    )
