"""Files: put where the server says (XEP-0363), and fetched from wherever people have put theirs, judged where each
address really leads (G8)."""

from dataclasses import replace
from urllib.parse import urlsplit

from gateway.platforms.call_errors import describe_call_error
from gateway.platforms.face import NeverTaken, NotNow
from gateway.platforms.xmpp.refusals import XmppKind, XmppTrouble, as_failure
from gateway.platforms.xmpp.server.link import XmppLink
from gateway.platforms.xmpp.xmpp_settings import XmppSettings
from gateway.platforms.xmpp.xmpp_xml import UPLOAD, find, find_all, make
from hermes_base.errors import DeliveryFailure
from hermes_net.address_rules import normalise_host
from hermes_net.checked_http import AddressRefused, AnsweredCall, CallFailed, HttpCall, call_checked

CALL_SECONDS, FETCH_SECONDS = 10.0, 120.0
SLOWEST = 100_000.0  # bytes a second: a file has so much more time
PAUSE_SECONDS = 30.0
MOST_FETCHED = 50_000_000
#: What only the owner of the server can change: it is not tried again.
_LASTING = frozenset(
    {"forbidden", "not-allowed", "not-authorized", "not-acceptable", "file-too-large", "registration-required", "gone"}
)
_HEADERS = {"authorization": "Authorization", "cookie": "Cookie", "expires": "Expires"}  # a slot may name no others


class XmppUploads:
    """The one service of our own server."""

    def __init__(self, settings: XmppSettings, service: str) -> None:
        self._settings = settings
        self.service = service
        self._origin: tuple[str, str, int | None] | None = None  # where files of our own server are

    async def put(self, link: XmppLink, name: str, data: bytes, kind: str) -> str:
        """The address of the file from now on."""
        url, put, headers = await self._ask_slot(link, name, len(data), kind)
        seconds = CALL_SECONDS + len(data) / SLOWEST
        call = HttpCall(put, "PUT", {**headers, "content-type": kind}, data, seconds=seconds, wants_body=False)
        answer = await self._call(call, "put")
        if answer.status in (413, 507):
            raise NeverTaken(f"The file {name} is larger than the XMPP server takes, or it has no room for it.")
        if answer.status >= 500 or answer.status in (408, 425, 429):
            raise NotNow(f"The XMPP server does not take the file now (status {answer.status}).", PAUSE_SECONDS)
        if not 200 <= answer.status < 300:
            raise NeverTaken(f"The XMPP server does not take the file {name} (status {answer.status}).")
        return url

    async def fetch(self, link: XmppLink, url: str) -> bytes:
        parts = _split(url)
        if parts is None or parts[0] not in ("http", "https"):
            raise NeverTaken("That is no address of a file.")
        own = await self._is_own(link, parts)
        if parts[0] != "https" and not own:
            raise NeverTaken("The address of the file is not encrypted (http), and not on the own XMPP server.")
        answer = await self._call(
            HttpCall(url, redirects=3 if not own else 0, seconds=FETCH_SECONDS, most_bytes=MOST_FETCHED), "get", own=own
        )
        if answer.cut:
            raise NeverTaken(f"The file is larger than {MOST_FETCHED:,} bytes.")
        if answer.status >= 500 or answer.status in (408, 425, 429):
            raise NotNow(f"The file cannot be had now (status {answer.status}).", PAUSE_SECONDS)
        if answer.status != 200:
            raise NeverTaken(f"The file is not there any more (status {answer.status}).")
        return answer.body

    async def _is_own(self, link: XmppLink, parts: tuple[str, str, int | None]) -> bool:
        """Whether our own server has it: then its host may be in a network of the owner's. A slot tells where it keeps
        files."""
        if self._origin is None and self.service and self._is_server(parts[1]):
            try:
                await self._ask_slot(link, "file", 1, "application/octet-stream")
            except DeliveryFailure:
                return False
        return parts == self._origin

    def _is_server(self, host: str) -> bool:
        """Whether it may be our own server by its name: others are not worth a question."""
        settings = self._settings
        own = (settings.host, settings.domain)
        return host in own or host.endswith(f".{settings.domain}") or host in settings.rules.names

    async def _ask_slot(self, link: XmppLink, name: str, size: int, kind: str) -> tuple[str, str, dict[str, str]]:
        request = make(UPLOAD, "request", filename=name, size=str(size))
        request.set("content-type", kind)
        try:
            answer = await link.ask(request, self.service)
        except XmppTrouble as trouble:
            raise _as_upload_failure(trouble, name) from None
        slot = find(answer, UPLOAD, "slot")
        put, get = find(slot, UPLOAD, "put"), find(slot, UPLOAD, "get")
        url, target = (
            (get.get("url") or "") if get is not None else "",
            (put.get("url") or "") if put is not None else "",
        )
        if put is None or not url or _split(target) is None:
            raise NotNow("The XMPP server does not say where the file goes.", PAUSE_SECONDS)
        if self._settings.tls and not target.startswith("https://"):
            raise NeverTaken("The XMPP server takes files only without encryption.")
        headers = {
            _HEADERS[key]: (one.text or "").replace("\n", "").replace("\r", "")
            for one in find_all(put, UPLOAD, "header")
            if (key := (one.get("name") or "").strip().lower()) in _HEADERS
        }
        self._origin = _split(url)
        return url, target, headers

    async def _call(self, call: HttpCall, what: str, *, own: bool = True) -> AnsweredCall:
        """`own`: to a host of our own server, which the settings name."""
        rules = self._settings.rules
        if own and self._settings.host:
            rules = replace(rules, names=rules.names | {normalise_host(self._settings.host)})
        try:
            return await call_checked(call, rules)
        except AddressRefused as refused:
            raise NeverTaken(str(refused)) from None
        except CallFailed as failed:
            said = "The file could not be handed over" if what == "put" else "The file could not be had"
            why = describe_call_error(failed, (urlsplit(call.url).hostname or "") if own else "")
            raise NotNow(f"{said}: {why}.", PAUSE_SECONDS) from None


def _as_upload_failure(trouble: XmppTrouble, name: str) -> DeliveryFailure:
    """Nothing was sent yet, and it says nothing about the chat: nobody there is waited for."""
    if trouble.kind is XmppKind.UNSENT:
        return as_failure(trouble, "")
    said = " ".join(filter(None, (trouble.condition, trouble.text))) or "no answer"
    if trouble.condition in _LASTING and trouble.type != "wait":
        return NeverTaken(f"The XMPP server does not take the file {name} ({said}).")
    return NotNow(f"The XMPP server does not take the file {name} now ({said}).", PAUSE_SECONDS)


def _split(url: str) -> tuple[str, str, int | None] | None:
    try:
        parts = urlsplit(url)
        return (parts.scheme, normalise_host(parts.hostname or ""), parts.port) if parts.hostname else None
    except ValueError:
        return None
