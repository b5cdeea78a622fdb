"""What a server offers an account, asked once for each session."""

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


@dataclass(frozen=True, slots=True)
class XmppOffers:
    archive: bool = False
    upload: str = ""  # the service that takes files
    max_file_bytes: int = 0


async def ask_offers(link: XmppLink, settings: XmppSettings) -> XmppOffers:
    """Raises XmppTrouble when the line breaks meanwhile; a server that offers nothing is no trouble."""
    account, _ = await _ask_features(link, settings.jid)
    server, _ = await _ask_features(link, settings.domain)
    if CARBONS in server:
        await _spare(link, make(CARBONS, "enable"), "set")
    archive = ARCHIVE in account and await _keep_everything(link)
    upload, most = await _find_upload(link, settings)
    return XmppOffers(archive, upload, most)


async def ask_room(link: XmppLink, room: str) -> frozenset[str]:
    """What a room is; XmppTrouble when there is none, or nobody says."""
    return _read_features(await link.ask(make(DISCO_INFO, "query"), room))


def greet(link: XmppLink) -> None:
    """We are there: from now on messages come by themselves."""
    link.put(make(CLIENT, "presence"))


async def _ask_features(link: XmppLink, to: str) -> tuple[frozenset[str], Element | None]:
    answer = await _spare(link, make(DISCO_INFO, "query"), "get", to)
    return (_read_features(answer), answer) if answer is not None else (frozenset(), None)


def _read_features(answer: Element) -> frozenset[str]:
    query = find(answer, DISCO_INFO, "query")
    return frozenset(one.get("var") or "" for one in find_all(query, DISCO_INFO, "feature"))


async def _spare(link: XmppLink, payload: Element, type_: str, to: str = "") -> Element | None:
    """The answer to something that may be refused."""
    try:
        return await link.ask(payload, to, type_)
    except XmppTrouble as trouble:
        if trouble.kind is not XmppKind.REFUSED:
            raise
        return None


async def _keep_everything(link: XmppLink) -> bool:
    """Whether the archive has all that is said; one that is set to keep less is set to keep all."""
    told = find(await _spare(link, make(ARCHIVE, "prefs"), "get"), ARCHIVE, "prefs")
    if told is None or told.get("default") == "always":
        return True  # a server without preferences has rules of its own
    wanted = make(ARCHIVE, "prefs", default="always")
    add(wanted, ARCHIVE, "always")
    add(wanted, ARCHIVE, "never")
    return await _spare(link, wanted, "set") is not None


async def _find_upload(link: XmppLink, settings: XmppSettings) -> tuple[str, int]:
    answer = await _spare(link, make(DISCO_ITEMS, "query"), "get", settings.domain)
    items = find_all(find(answer, DISCO_ITEMS, "query"), DISCO_ITEMS, "item")
    for service in [settings.domain, *(item.get("jid") or "" for item in items[:MOST_SERVICES])]:
        features, info = await _ask_features(link, service) if service else (frozenset[str](), None)
        if UPLOAD in features:
            return service, _read_limit(info)
    return "", 0


def _read_limit(info: Element | None) -> int:
    for form in find_all(find(info, DISCO_INFO, "query"), FORM, "x"):
        for one in find_all(form, FORM, "field"):
            value = read_text(one, FORM, "value").strip()
            if one.get("var") == "max-file-size" and value.isdecimal():
                return int(value)
    return 0
