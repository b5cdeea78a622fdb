"""One line to a server: the SDK makes the stream, encrypts it, logs in and counts stanzas (XEP-0198). It never connects
again, sends again or answers a message by itself: each line is an object of its own, and its stanzas are taken raw."""

import asyncio
import contextlib
import logging
import secrets
import ssl
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any
from xml.etree.ElementTree import Element

from slixmpp import ClientXMPP
from slixmpp.stanza import Iq, Message, Presence
from slixmpp.xmlstream import StanzaBase

from gateway.platforms.call_errors import describe_call_error
from gateway.platforms.face import NotNow
from gateway.platforms.xmpp.refusals import (
    CONFLICT,
    NOT_CONNECTED_SECONDS,
    SET_UP,
    XmppKind,
    XmppTrouble,
    as_login_problem,
    read_error,
    read_stream_error,
)
from gateway.platforms.xmpp.xmpp_settings import DIRECT_TLS_PORT, XmppSettings, check_plain, make_context
from gateway.platforms.xmpp.xmpp_xml import (
    ARCHIVE,
    CLIENT,
    DELAY,
    FORWARD,
    PING,
    RESULT_SET,
    STANZAS,
    add,
    find,
    make,
    make_form,
    read_bare,
    read_stamp,
    read_text,
)
from hermes_base.errors import ConfigProblem, DeliveryFailure

_log = logging.getLogger(__name__)
OPEN_SECONDS, ASK_SECONDS, FAREWELL_SECONDS = 30.0, 20.0, 2.0
PAGE = 50  # messages of an archive in one answer
_SEQUENCE = 2**32
MOST_UNCOUNTED = 20  # stanzas of ours, of whatever kind, after which the server is asked how many it has taken
_ASK_COUNT = "<r xmlns='urn:xmpp:sm:3'/>"
#: Below this level it writes what people said, and passwords.
logging.getLogger("slixmpp").setLevel(logging.CRITICAL)
logging.getLogger("slixmpp").propagate = False


@dataclass(frozen=True, slots=True)
class Resumption:
    """What has to be known to go on with a session whose line broke."""

    name: str
    jid: str
    handled: int
    acked: int
    waiting: tuple[str, ...]  # ids of stanzas that the server has not counted, in order


@dataclass(frozen=True, slots=True)
class Archived:
    id: str
    stanza: Element
    stamp: float


@dataclass(frozen=True, slots=True)
class ArchivePage:
    messages: list[Archived]
    complete: bool
    first: str
    last: str


@dataclass(slots=True)
class _Pending:
    """A message on its way."""

    future: asyncio.Future[None]
    reflected: bool  # a room has to show it; else the server has to count it


class _Client(ClientXMPP):
    """The SDK's client; `alive` is called with whatever comes."""

    alive: Callable[[], None] = staticmethod(lambda: None)

    def data_received(self, data: Any) -> None:
        self.alive()
        super().data_received(data)

    def exception(self, exception: Exception) -> None:
        _log.error("The XMPP library failed (%s).", type(exception).__name__)

    def _handle_stream_error(self, error: Any) -> None:
        """The SDK would follow a server to wherever it sends us; that is for the owner to say."""
        self.event("stream_error", error)

    async def end(self) -> None:
        """Whatever the SDK has under way."""
        self.cancel_connection_attempt()
        self.abort()
        sending, self._run_out_filters = self._run_out_filters, None
        for name in list(self.scheduled_events):
            self.cancel_schedule(name)
        if sending is not None:
            sending.cancel()
            await asyncio.gather(sending, return_exceptions=True)


class XmppLink:
    """Calls are made on the event loop. `hear` is given each message and presence, in order; it takes no time."""

    def __init__(
        self,
        settings: XmppSettings,
        hear: Callable[[Element], None],
        alive: Callable[[], None],
        counted: Callable[[str], None],
        kept: Resumption | None = None,
    ) -> None:
        """`counted`: called with the id of a message that the server has taken; `kept`: a session to go on with."""
        self._settings = settings
        self._hear = hear
        self._alive = alive
        self._counted = counted
        self._kept = kept
        self._client: _Client | None = None
        self._opened: asyncio.Future[None] | None = None
        self._failure = ""  # of the last try to connect
        self._pending: dict[str, _Pending] = {}
        self._asked: dict[str, tuple[asyncio.Future[Element], str]] = {}
        self._queries: dict[str, tuple[str, list[Archived]]] = {}
        self._counts = False  # the server counts stanzas
        self.resumed = False
        self.condition = ""  # why the server ended the line, in its own word
        self.ended = asyncio.Event()
        self.why = ""
        self.jid = kept.jid if kept else f"{settings.jid}/{settings.resource}"

    @property
    def is_open(self) -> bool:
        return self._opened is not None and self._opened.done() and not self.ended.is_set()

    # --- opening and closing

    async def open(self) -> None:
        """ConfigProblem for what the owner can put right, else a DeliveryFailure."""
        settings = self._settings
        try:
            await check_plain(settings)
        except OSError as error:
            raise self._unreached(describe_call_error(error)) from None
        context = await asyncio.to_thread(make_context, settings)
        client = self._client = self._make_client(context)
        self._opened = asyncio.get_running_loop().create_future()
        try:
            client.connect(settings.host or None, settings.port if settings.host else None)
            async with asyncio.timeout(OPEN_SECONDS):
                await self._opened
        except TimeoutError:
            raise self._unreached("it did not answer in time") from None

    def _make_client(self, context: ssl.SSLContext) -> _Client:
        settings = self._settings
        client = _Client(f"{settings.jid}/{settings.resource}", settings.password, ssl_context=context)
        client.alive = self._alive
        direct = not settings.host or settings.port == DIRECT_TLS_PORT
        client.enable_direct_tls = settings.tls and direct
        client.enable_starttls = settings.tls and (not settings.host or not direct)
        client.enable_plaintext = not settings.tls
        client.plugin["feature_mechanisms"].unencrypted_scram = not settings.tls
        client.whitespace_keepalive = False
        client.auto_authorize = None
        client.auto_subscribe = False
        client.register_plugin("xep_0030")
        client.register_plugin("xep_0198")
        client.register_plugin("xep_0199")
        counting = client.plugin["xep_0198"]
        counting.window = counting.window_counter = MOST_UNCOUNTED
        if self._kept is not None:
            counting.sm_id, counting.handled = self._kept.name, self._kept.handled
            counting.last_ack = self._kept.acked
        client.add_filter("in", self._take)
        for event, handler in {
            "stream_negotiated": self._on_negotiated,
            "session_resumed": self._on_resumed,
            "connection_failed": self._on_unreached,
            "reconnect_delay": self._on_delay,
            "failed_auth": self._on_refused,
            "no_auth": self._on_no_way,
            "ssl_invalid_chain": self._on_certificate,
            "stream_error": self._on_stream_error,
            "stanza_acked": self._on_counted,
            "disconnected": self._on_end,
        }.items():
            client.add_event_handler(event, handler)
        return client

    def keep(self) -> Resumption | None:
        """What a next line goes on with; None: the server keeps nothing of this one."""
        counting = self._client.plugin["xep_0198"] if self._client is not None else None
        if counting is None or not counting.sm_id or not self._counts:
            return None
        waiting = tuple(stanza["id"] if isinstance(stanza, Message) else "" for _, stanza in counting.unacked_queue)
        return Resumption(counting.sm_id, self.jid, counting.handled, counting.last_ack, waiting)

    async def close(self, *, farewell: bool = False) -> None:
        """`farewell`: the server is told, and forgets the session."""
        client = self._client
        if client is None:
            return
        if farewell and self.is_open:
            if self._counts:
                counting: Any = client.plugin["xep_0198"]
                counting.send_ack()
            client.disconnect(FAREWELL_SECONDS, ignore_send_queue=True)
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(FAREWELL_SECONDS):
                    await self.ended.wait()
        self._end("it was closed")
        await client.end()

    def _end(self, why: str) -> None:
        """Nothing more comes; what is under way is in doubt."""
        if self.ended.is_set():
            return
        self.why = self.why or why
        self.ended.set()
        unsure = XmppTrouble(XmppKind.UNSURE, text=self.why)
        futures = [pending.future for pending in self._pending.values()] + [one for one, _ in self._asked.values()]
        for future in futures:
            if not future.done():
                future.set_exception(unsure)
        if self._opened is not None and not self._opened.done():
            self._opened.set_exception(self._unreached(self.why))

    def break_off(self, why: str) -> None:
        """The line is dead; what was known of the session stays for the next one."""
        self.why = why
        if self._client is not None:
            self._client.abort()
        self._end(why)

    # --- what the SDK tells

    def _fail(self, problem: ConfigProblem | DeliveryFailure) -> None:
        if self._opened is not None and not self._opened.done():
            self._opened.set_exception(problem)
        self.why = self.why or str(problem)

    def _unreached(self, why: str) -> NotNow:
        what = f"The XMPP server {self._settings.place} cannot be reached: {why}."
        return NotNow(what, NOT_CONNECTED_SECONDS, whole_account=True)

    def _on_negotiated(self, _: Any) -> None:
        client = self._client
        if client is None or not client.sessionstarted or self._opened is None or self._opened.done():
            return
        self._counts = "stream_management" in client.features
        self.jid = str(client.boundjid.full)
        self._opened.set_result(None)

    def _on_resumed(self, stanza: Any) -> None:
        if self._kept is None or self._opened is None or self._opened.done():
            return
        counted = (int(stanza["h"]) - self._kept.acked) % _SEQUENCE
        for id_ in self._kept.waiting[:counted]:
            if id_:
                self._counted(id_)
        self.unsent = tuple(filter(None, self._kept.waiting[counted:]))
        self.resumed = self._counts = True
        self._opened.set_result(None)

    unsent: tuple[str, ...] = ()  # after a resumption: what the server certainly has not taken

    def _on_unreached(self, error: Any) -> None:
        if isinstance(error, ssl.SSLCertVerificationError):
            self._on_certificate(error)
        told = isinstance(error, BaseException)  # else the SDK says that there is no such name
        self._failure = describe_call_error(error) if told else "the name of the server is not known"

    def _on_delay(self, _: Any) -> None:
        """Every address was tried once. The SDK would go on; we say when."""
        self._fail(self._unreached(self._failure or "no address of it answers"))
        if self._client is not None:
            asyncio.get_running_loop().call_soon(self._client.cancel_connection_attempt)

    def _on_refused(self, stanza: Any) -> None:
        """One wrong password is enough: a server may lock an account after some."""
        self._fail(as_login_problem(str(stanza["condition"]), str(stanza["text"] or "")))
        if self._client is not None:
            self._client.abort()

    def _on_no_way(self, _: Any) -> None:
        transport = self._client.transport if self._client is not None else None
        encrypted = transport is not None and transport.get_extra_info("ssl_object") is not None
        if self._settings.tls and not encrypted:
            what, kept = "offers no encryption, so nobody logs in there", "Nothing was sent there."
        else:
            what, kept = "offers no way to log in that is safe here", ""
        self._fail(ConfigProblem(f"The XMPP server {self._settings.place} {what}.", kept=kept, fix=SET_UP))

    def _on_no_session(self, trouble: XmppTrouble) -> None:
        """Some servers give a name that is taken to nobody else."""
        if trouble.condition == "conflict":
            self.condition = trouble.condition
            self._fail(ConfigProblem(CONFLICT.format(self._settings.resource)))
        else:
            self._fail(self._unreached(f"it makes no session ({trouble})"))
        if self._client is not None:
            self._client.abort()

    def _on_certificate(self, error: Any) -> None:
        why = getattr(error, "verify_message", "") or getattr(error, "reason", "") or type(error).__name__
        what = f"The certificate of {self._settings.place} is not trusted: {why}."
        fix = "Check the address, or name your own authority in platforms.xmpp.ca_file."
        self._fail(ConfigProblem(what, kept="Nothing was sent there.", fix=fix))
        if self._client is not None:
            self._client.abort()

    def _on_stream_error(self, stanza: Any) -> None:
        self.condition, self.why = read_stream_error(stanza.xml)
        if self._opened is not None and not self._opened.done() and self.condition in ("host-unknown", "host-gone"):
            self._fail(ConfigProblem(f"XMPP cannot be used: {self.why}.", fix=SET_UP))

    def _on_counted(self, stanza: Any) -> None:
        id_ = str(stanza["id"] or "") if isinstance(stanza, Message) else ""
        if not id_:
            return
        self._counted(id_)
        pending = self._pending.get(id_)
        if pending is not None and not pending.reflected and not pending.future.done():
            pending.future.set_result(None)

    def _on_end(self, reason: Any) -> None:
        if isinstance(reason, ssl.SSLCertVerificationError) and not self.is_open:
            self._on_certificate(reason)
        said = reason if isinstance(reason, str) else getattr(reason, "strerror", "")
        self._end(said or "it was cut")

    def _take(self, stanza: StanzaBase) -> StanzaBase | None:
        """Messages and presences are ours alone: the SDK would answer some of them by itself."""
        try:
            if isinstance(stanza, Message | Presence):
                if not self._collect(stanza.xml):
                    self._hear(stanza.xml)
                return None
            if isinstance(stanza, Iq) and stanza.xml.get("type") == "error" and not self.is_open:
                self._on_no_session(read_error(stanza.xml))
                return None
            if isinstance(stanza, Iq) and (self._take_answer(stanza.xml) or self._turn_away(stanza.xml)):
                return None
        except Exception as error:  # noqa: BLE001 - the boundary to the SDK, which would send the error to whoever wrote
            _log.error("A stanza could not be read (%s); it is left out.", type(error).__name__)
            return None
        return stanza

    # --- asking

    async def ask(self, payload: Element, to: str = "", type_: str = "get", seconds: float = 0.0) -> Element:
        """The answer to a question. XmppTrouble: it was refused, or nobody answered."""
        client = self._client
        if client is None or not self.is_open:
            raise XmppTrouble(XmppKind.UNSENT)
        id_ = secrets.token_hex(8)
        stanza = make(CLIENT, "iq", type=type_, to=to, id=id_)
        stanza.append(payload)
        future: asyncio.Future[Element] = asyncio.get_running_loop().create_future()
        self._asked[id_] = (future, read_bare(to))
        try:
            client.send(_wrap(Iq, client, stanza))
            async with asyncio.timeout(seconds or ASK_SECONDS):
                return await future
        except TimeoutError:
            raise XmppTrouble(XmppKind.UNSURE, text="no answer in time") from None
        finally:
            del self._asked[id_]

    def _take_answer(self, xml: Element) -> bool:
        """Whether it answers a question of ours, and comes from whom we asked."""
        asked = self._asked.get(xml.get("id") or "")
        if asked is None or xml.get("type") not in ("result", "error"):
            return False
        future, to = asked
        giver = read_bare(xml.get("from"))
        if giver != to and not (self._is_own(to) and self._is_own(giver)):
            return False
        if not future.done():
            if xml.get("type") == "error":
                future.set_exception(read_error(xml))
            else:
                future.set_result(xml)
        return True

    def _turn_away(self, xml: Element) -> bool:
        """Whether somebody asks our client something. They hear what they would hear if we were not there (G1)."""
        if xml.get("type") not in ("get", "set") or self._is_own(read_bare(xml.get("from"))):
            return False
        client = self._client
        if client is not None:
            answer = make(CLIENT, "iq", type="error", to=xml.get("from") or "", id=xml.get("id") or "")
            add(add(answer, CLIENT, "error", type="cancel"), STANZAS, "service-unavailable")
            client.send(_wrap(Iq, client, answer))
        return True

    def _is_own(self, giver: str) -> bool:
        """Whether it is our server, or our account, that says something."""
        return giver in ("", self._settings.jid, self._settings.domain)

    async def ping(self) -> None:
        """Whether the line lives: any answer will do."""
        try:
            await self.ask(make(PING, "ping"), self._settings.domain)
        except XmppTrouble as trouble:
            if trouble.kind is not XmppKind.REFUSED:
                raise

    # --- archives

    async def read_archive(
        self, archive: str = "", *, after: str = "", before: str | None = None, start: str = "", with_: str = ""
    ) -> ArchivePage:
        """A page of an archive: our own, or a room's. `before`: from there backwards, empty: from the end."""
        name = secrets.token_hex(6)
        query = make(ARCHIVE, "query", queryid=name)
        query.append(make_form(ARCHIVE, with_=with_, start=start))
        limits = add(query, RESULT_SET, "set")
        add(limits, RESULT_SET, "max", str(PAGE))
        if after:
            add(limits, RESULT_SET, "after", after)
        if before is not None:
            add(limits, RESULT_SET, "before", before)
        found: list[Archived] = []
        self._queries[name] = (archive or self._settings.jid, found)
        try:
            answer = await self.ask(query, archive, "set", 2 * ASK_SECONDS)
        finally:
            del self._queries[name]
        fin = find(answer, ARCHIVE, "fin")
        told = find(fin, RESULT_SET, "set")
        complete = fin is not None and fin.get("complete") == "true"
        return ArchivePage(found, complete, read_text(told, RESULT_SET, "first"), read_text(told, RESULT_SET, "last"))

    def _collect(self, xml: Element) -> bool:
        """Whether it is a result of an archive. One that nobody asked for is nobody's."""
        result = find(xml, ARCHIVE, "result")
        if result is None:
            return False
        archive, found = self._queries.get(result.get("queryid") or "", ("", []))
        giver = read_bare(xml.get("from")) or self._settings.jid
        forwarded = find(result, FORWARD, "forwarded")
        stanza, delay = find(forwarded, CLIENT, "message"), find(forwarded, DELAY, "delay")
        if archive and giver == archive and stanza is not None and result.get("id"):
            stamp = read_stamp(delay.get("stamp") or "") if delay is not None else 0.0
            found.append(Archived(result.get("id") or "", stanza, stamp))
        return True

    # --- saying

    async def say(self, stanza: Element, *, reflected: bool = False) -> None:
        """Returns when the server has taken a message, or, `reflected`, when the room has shown it."""
        client, id_ = self._client, stanza.get("id") or ""
        if client is None or not self.is_open:
            raise XmppTrouble(XmppKind.UNSENT)
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._pending[id_] = _Pending(future, reflected)
        try:
            client.send(_wrap(Message, client, stanza))
            if self._counts:
                client.send(_ASK_COUNT)
            elif not reflected:
                await self._pass(future)
            await future
        finally:
            self._pending.pop(id_, None)

    async def _pass(self, future: asyncio.Future[None]) -> None:
        """A server that does not count answers a question behind the message: stanzas are handled in order."""
        await self.ping()
        if not future.done():
            future.set_result(None)

    def put(self, stanza: Element) -> None:
        """Say something that need not arrive."""
        client = self._client
        if client is not None and self.is_open:
            client.send(_wrap(Presence if stanza.tag.endswith("}presence") else Message, client, stanza))

    def note_shown(self, id_: str) -> None:
        """A room has shown it."""
        pending = self._pending.get(id_)
        if pending is not None and not pending.future.done():
            pending.future.set_result(None)

    def note_refused(self, id_: str, trouble: XmppTrouble) -> bool:
        """Whether it is on its way, and is told so."""
        pending = self._pending.get(id_)
        if pending is None or pending.future.done():
            return False
        pending.future.set_exception(trouble)
        return True


def _wrap(form: Any, client: ClientXMPP, stanza: Element) -> StanzaBase:
    """An element as the SDK sends it; its constructors have no types."""
    made: StanzaBase = form(client, xml=stanza)
    return made
