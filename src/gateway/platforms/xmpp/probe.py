"""Connects once and says who we are there and what the server offers, for whoever sets the account up."""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from gateway.platforms.id_forms import refuse_own
from gateway.platforms.xmpp import SPEC
from gateway.platforms.xmpp.refusals import XmppTrouble
from gateway.platforms.xmpp.server.link import XmppLink
from gateway.platforms.xmpp.server.xmpp_offers import UploadOffer, XmppOffers, ask_offers
from gateway.platforms.xmpp.xmpp_settings import XmppSettings, read_settings
from hermes_base.errors import ConfigProblem, DeliveryFailure


async def probe(settings: Mapping[str, Any], home: Path) -> str:
    """Which account it is, in a sentence; ConfigProblem when that cannot be found out."""
    del home
    read = read_settings(settings)
    # Under a name of its own: a Hermes that runs with the account is not put out by it.
    link = XmppLink(replace(read, resource=f"{read.resource}-setup"), lambda _: None, lambda: None, lambda _: None)
    try:
        await link.open()
        offers = await ask_offers(link, read)
    except (DeliveryFailure, XmppTrouble) as problem:
        raise ConfigProblem(f"XMPP cannot be asked: {problem}", fix="Check the address, and try again.") from None
    finally:
        await link.close(farewell=True)
    refuse_own(SPEC.person_ids, settings, read.jid)
    return describe(read, offers)


def describe(settings: XmppSettings, offers: XmppOffers) -> str:
    line = "encrypted" if settings.tls else "not encrypted"
    archive = (
        "the server keeps an archive"
        if offers.archive
        else "the server keeps no archive, so what is said while Hermes is off may be lost"
    )
    files = _describe_files(offers.upload)
    return f"It is {settings.jid} at {settings.place}; the line is {line}, {archive}, and {files}."


def _describe_files(upload: UploadOffer) -> str:
    if not upload.service:
        return "it takes no files" if upload.sure else "not every service of it said in time whether it takes files"
    size = f" up to {upload.max_file_bytes:,} bytes" if upload.max_file_bytes else ""
    return f"it takes files{size}"
