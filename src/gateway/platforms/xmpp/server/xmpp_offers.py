"""What a server offers an account, asked once for each session."""

import asyncio
from dataclasses import dataclass
from xml.etree.ElementTree import Element

from gateway.platforms.xmpp.refusals import XmppKind, XmppTrouble
from gateway.platforms.xmpp.server.link import XmppLink
from gateway.platforms.xmpp.xmpp_settings import XmppSettings
from gateway.platforms.xmpp.xmpp_xml import (
    ARCHIVE,
    CARBONS,
    CLIENT,
    DISCO_INFO,
    DISCO_ITEMS,
    FORM,
    UPLOAD,
    add,
    find,
    find_all,
    make,
    read_text,
)

MOST_SERVICES = 20  # of a server that are asked what they are
SERVICE_SECONDS = 5.0  # a service that is silent for longer keeps nobody waiting
WAITS = (1.0, 2.0, 4.0)  # before a question that our own server put off is asked again


@dataclass(frozen=True, slots=True)
class UploadOffer:
    """Where files may be put. `sure`: otherwise somebody did not say now, and it may be there after all."""

    service: str = ""
    max_file_bytes: int = 0
    sure: bool = True


@dataclass(frozen=True, slots=True)
class XmppOffers:
    archive: bool = False
    upload: UploadOffer = UploadOffer()


async def ask_offers(link: XmppLink, settings: XmppSettings) -> XmppOffers:
    """A server that offers nothing is no trouble. XmppTrouble when the line breaks meanwhile, or when our own server
    does not say now what it keeps: a guess would be wrong about the names of messages for the whole session."""
    account = _read_features(await _ask_own(link, make(DISCO_INFO, "query"), to=settings.jid))
    server = _read_features(await _ask_own(link, make(DISCO_INFO, "query"), to=settings.domain))
    if CARBONS in server:
        await _ask_own(link, make(CARBONS, "enable"), "set")
    archive = ARCHIVE in account and await _keep_everything(link)
    return XmppOffers(archive, await find_upload(link, settings))


async def ask_room(link: XmppLink, room: str) -> frozenset[str]:
    """What a room is; XmppTrouble when there is none, or nobody says."""
    return _read_features(await link.ask(make(DISCO_INFO, "query"), room))


def greet(link: XmppLink) -> None:
    """We are there: from now on messages come by themselves."""
    link.put(make(CLIENT, "presence"))


def _read_features(answer: Element | None) -> frozenset[str]:
    query = find(answer, DISCO_INFO, "query")
    return frozenset(one.get("var") or "" for one in find_all(query, DISCO_INFO, "feature"))


async def _ask_own(link: XmppLink, payload: Element, type_: str = "get", to: str = "") -> Element | None:
    """What our own server answers; None: it does not offer that. What it puts off is asked again."""
    waits = [*WAITS]
    while True:
        try:
            return await link.ask(payload, to, type_)
        except XmppTrouble as trouble:
            if not trouble.passes:
                return None
            if trouble.kind is not XmppKind.REFUSED or not waits:
                raise
            await asyncio.sleep(waits.pop(0))


async def _keep_everything(link: XmppLink) -> bool:
    """Whether the archive has all that is said; one that is set to keep less is set to keep all."""
    told = find(await _ask_own(link, make(ARCHIVE, "prefs")), ARCHIVE, "prefs")
    if told is None or told.get("default") == "always":
        return True  # a server without preferences has rules of its own
    wanted = make(ARCHIVE, "prefs", default="always")
    add(wanted, ARCHIVE, "always")
    add(wanted, ARCHIVE, "never")
    return await _ask_own(link, wanted, "set") is not None


async def find_upload(link: XmppLink, settings: XmppSettings) -> UploadOffer:
    """Whoever of the server's services takes files: all are asked at once, and the first that does has it. One that is
    silent costs nothing, or, where nobody takes files, a moment. XmppTrouble when the line breaks."""
    listed, sure = await _ask_service(link, make(DISCO_ITEMS, "query"), settings.domain)
    items = find_all(find(listed, DISCO_ITEMS, "query"), DISCO_ITEMS, "item")[:MOST_SERVICES]
    services = list(dict.fromkeys([settings.domain, *filter(None, (item.get("jid") for item in items))]))
    asking = [asyncio.create_task(_ask_upload(link, service)) for service in services]
    try:
        for asked in asyncio.as_completed(asking):
            found = await asked
            if found.service:
                return found
            sure = sure and found.sure
    finally:
        for task in asking:
            task.cancel()
        await asyncio.gather(*asking, return_exceptions=True)
    return UploadOffer(sure=sure)


async def _ask_upload(link: XmppLink, service: str) -> UploadOffer:
    info, sure = await _ask_service(link, make(DISCO_INFO, "query"), service)
    if UPLOAD not in _read_features(info):
        return UploadOffer(sure=sure)
    return UploadOffer(service, _read_limit(info))


async def _ask_service(link: XmppLink, payload: Element, service: str) -> tuple[Element | None, bool]:
    """What a service answers, if it does, and whether that can be counted on."""
    try:
        return await link.ask(payload, service, seconds=SERVICE_SECONDS), True
    except XmppTrouble as trouble:
        if not link.is_open:
            raise
        return None, not trouble.passes


def _read_limit(info: Element | None) -> int:
    for form in find_all(find(info, DISCO_INFO, "query"), FORM, "x"):
        for one in find_all(form, FORM, "field"):
            value = read_text(one, FORM, "value").strip()
            if one.get("var") == "max-file-size" and value.isdecimal():
                return int(value)
    return 0
