"""Whether an address is a room. A room says who is in it, so whoever could play one could be anybody: its service has
to say that it is one for rooms, and a server with accounts of people is none."""

from gateway.platforms.xmpp.refusals import XmppTrouble
from gateway.platforms.xmpp.server.link import XmppLink
from gateway.platforms.xmpp.xmpp_xml import DISCO_INFO, find, find_all, make

_ROOMS, _SERVER = "conference/text", "server/"  # kinds, in the words of XEP-0030


async def is_room(link: XmppLink, address: str) -> bool:
    """XmppTrouble when nobody says now. One that keeps to itself what it is is what its service has."""
    service = await _ask_kinds(link, address.partition("@")[2])
    if service is None or _ROOMS not in service or any(kind.startswith(_SERVER) for kind in service):
        return False
    kinds = await _ask_kinds(link, address)
    return kinds is None or _ROOMS in kinds


async def _ask_kinds(link: XmppLink, address: str) -> frozenset[str] | None:
    """None: it does not say."""
    try:
        answer = await link.ask(make(DISCO_INFO, "query"), address)
    except XmppTrouble as trouble:
        if trouble.passes:
            raise
        return None
    every = find_all(find(answer, DISCO_INFO, "query"), DISCO_INFO, "identity")
    return frozenset(f"{one.get('category')}/{one.get('type')}" for one in every)
