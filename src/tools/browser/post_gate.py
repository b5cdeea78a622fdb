"""What leaves the browser on a site that a person is signed in to, inside the helper: posts and uploads, to whichever
host, are held until the person has agreed; a page of that site is foreign text itself. What was shown is what is
sent."""

import asyncio
import logging
import re
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from typing import Any
from urllib.parse import urljoin, urlsplit
from weakref import WeakKeyDictionary

from hermes_base.text.harmless import show_hidden
from tools.browser.driver import DriverError
from tools.browser.post_net import READS, PostNet, read_body
from tools.browser.sign_ins import covers

log = logging.getLogger(__name__)

MOST_QUESTIONS = 5  # in one action
WATCH_SECONDS = 2.0  # until its answers can be seen; a frame that this very post is to fill never gets so far
ANSWER_SECONDS = 10.0  # that an action waits for the answer to a post
BODY_CHARS = 2000
_SENT_ON = frozenset({307, 308})
_SENT_ON_BUT_POSTS = frozenset({301, 302})  # browsers make a reading request of a post, and of nothing else
#: Addresses in which a browser finds another host than everybody else.
_TWO_WAYS = re.compile(r"^[^?#]*\\|^(?:https?:)?///|^https?:(?!//)|[\x00-\x20\x7f-\x9f]", re.IGNORECASE)
#: What a post can be for: the answers to these are looked at.
_ANSWERS = {
    "patterns": [
        {"requestStage": "Response", "resourceType": kind} for kind in ("Document", "XHR", "Fetch", "Ping", "Other")
    ]
}

SIGNED_IN = "it is sent under your name: you are signed in there, and a page may have asked for it"
SENT_ON = "the site sends what you agreed to on to this address, under your name"
LEAVES = "a file of yours is given to a site, and a page may have asked for it"

Asker = Callable[[str, str], Awaitable[bool]]  # what is to be sent, and why it is asked


class PostGate:
    """Of one task: whom to ask just now. Between actions nobody is there, and nothing is sent."""

    def __init__(self, note: Callable[[str], None], net: PostNet) -> None:
        self._note, self._net = note, net
        self._ask: Asker | None = None
        self._asked = 0  # in this action
        self._refused: set[tuple[str, str, str]] = set()
        self._one_at_a_time = asyncio.Lock()
        self._open = 0
        self.settled = asyncio.Event()  # nothing is judged, and no post is without an answer
        self.settled.set()
        self._chores: set[asyncio.Task[None]] = set()
        self._expected: dict[tuple[str, str], asyncio.TimerHandle] = {}  # posts that have no answer yet
        self._watched: WeakKeyDictionary[Any, asyncio.Future[Any]] = WeakKeyDictionary()  # pages and frames

    def begin(self, ask: Asker) -> None:
        self._ask = ask
        self._asked, self._refused = 0, set()

    def end(self) -> None:
        """From now on nobody can be asked."""
        self._ask = None

    async def watch(self, context: Any, site: str) -> None:
        """Look at every request of a context that is signed in to a site."""

        async def judge(route: Any) -> None:
            self._begin()
            try:
                request = route.request
                watched = await self._is_watched(context, request)
                allowed = (watched or self._may_go_unwatched(context)) and await self._allows(request, site)
                if allowed and request.method not in READS:
                    self._net.agree(request.method, request.url, request.post_data_buffer or b"")
                    if watched:
                        self._expect(request.method, request.url)
                # Given up, and not failed: a page that leads elsewhere stays as it is.
                await (route.continue_() if allowed else route.abort("aborted"))
            except DriverError:
                return  # its page has gone
            finally:
                self._finish()

        await context.route("**/*", judge)

    async def may(self, what: str, why: str, *, about: tuple[str, str, str]) -> bool:
        """Whether something may be sent, this once. A no is good for the whole action."""
        self._begin()
        try:
            async with self._one_at_a_time:
                ask = self._ask if self._asked < MOST_QUESTIONS and about not in self._refused else None
                if ask is None:
                    return False
                self._asked += 1
                allowed = await ask(what, why)
                if not allowed:
                    self._refused.add(about)
                return allowed
        finally:
            self._finish()

    def _begin(self) -> None:
        self._open += 1
        self.settled.clear()

    def _finish(self) -> None:
        self._open -= 1
        if not self._open:
            self.settled.set()

    def _expect(self, method: str, url: str) -> None:
        """What was agreed to is sent: its answer may be the next question, so the action waits for it, for a while."""
        key = method, url.partition("#")[0]
        if key not in self._expected:
            self._begin()
            self._expected[key] = asyncio.get_running_loop().call_later(ANSWER_SECONDS, self._meet, *key)

    def _meet(self, method: str, url: str) -> None:
        timer = self._expected.pop((method, url.partition("#")[0]), None)
        if timer is not None:
            timer.cancel()
            self._finish()

    async def watch_answers(self, context: Any, target: Any) -> None:
        """Look at what answers the posts of a page, or of a frame with a process of its own, before the browser does:
        the driver does not tell of redirects, and two kinds of them have the browser send the same once more, to
        whomever the answer names. Only what is asked for from now on is seen."""
        if target not in self._watched:
            self._watched[target] = asyncio.ensure_future(self._open_line(context, target))
        await asyncio.shield(self._watched[target])

    async def _open_line(self, context: Any, target: Any) -> Any:
        session = await context.new_cdp_session(target)

        async def judge(paused: Mapping[str, Any]) -> None:
            with suppress(DriverError):  # its page has gone
                order = {"requestId": paused["requestId"]}
                allowed = await self._may_go_on(paused)
                self._meet(paused["request"]["method"], paused["request"]["url"])
                if allowed:
                    await session.send("Fetch.continueResponse", order)
                else:
                    await session.send("Fetch.failRequest", {**order, "errorReason": "Aborted"})

        def take(paused: Mapping[str, Any]) -> None:
            self._chores.add(chore := asyncio.ensure_future(judge(paused)))
            chore.add_done_callback(self._chores.discard)

        session.on("Fetch.requestPaused", take)
        await session.send("Fetch.enable", _ANSWERS)
        return session

    async def _is_watched(self, context: Any, request: Any) -> bool:
        """Whether it sends nothing, or it will be seen where the answer leads. If not, that of the next one will be."""
        if request.method in READS:
            return True
        try:
            async with asyncio.timeout(WATCH_SECONDS):
                target = await self._find_target(context, request.frame)
                line = self._watched.get(target)
                if line is not None and line.done() and await self._is_open(line.result(), target):
                    return True
                await self.watch_answers(context, target)
        except (DriverError, TimeoutError) as error:  # a tab or frame that is only just being made, or has gone
            log.debug("the answers of a page cannot be seen: %s", type(error).__name__)
        return False

    def _may_go_unwatched(self, context: Any) -> bool:
        """In a browser of which all is seen, nothing is sent on unasked either way."""
        if not self._net.holds(context.browser):
            self._note("It was not sent: where its answer leads could not be seen yet. Try it once more.")
        return self._net.holds(context.browser)

    async def _is_open(self, session: Any, target: Any) -> bool:
        try:
            await session.send("Fetch.enable", _ANSWERS)
        except DriverError:  # the process of the frame is another one now
            del self._watched[target]
            return False
        return True

    async def _find_target(self, context: Any, frame: Any) -> Any:
        """The nearest frame around it that has a process of its own, or the page."""
        while frame.parent_frame is not None:
            if frame in self._watched:
                return frame
            with suppress(DriverError):  # it belongs to the process of the one around it
                await (await context.new_cdp_session(frame)).detach()
                return frame
            frame = frame.parent_frame
        return frame.page

    async def _may_go_on(self, paused: Mapping[str, Any]) -> bool:
        """Whether the browser may follow an answer: one that sends a post on to another address is asked for anew."""
        request = paused["request"]
        sent_on = _SENT_ON if request["method"] == "POST" else _SENT_ON | _SENT_ON_BUT_POSTS
        if paused.get("responseStatusCode") not in sent_on or request["method"] in READS:
            return True
        named = next((one["value"] for one in paused["responseHeaders"] if one["name"].lower() == "location"), "")
        if _TWO_WAYS.search(named):
            self._note("The site wanted to have it sent on, to an address that is not clear, so that was not done.")
            return False
        url = urljoin(request["url"], named).partition("#")[0]
        body = read_body(request)
        what = show_hidden(f"{request['method']} {url}\n{_show_body(body)}")
        allowed = await self.may(what, SENT_ON, about=(request["method"], url, body.hex()))
        if allowed:
            self._net.agree(request["method"], url, body)
            self._expect(request["method"], url)
        else:
            host = urlsplit(url).hostname or "another address"
            self._note(f"The site wanted to have it sent on to {host}: nobody agreed to it, so that was not done.")
        return allowed

    async def _allows(self, request: Any, site: str) -> bool:
        host = urlsplit(request.url).hostname or ""
        if not covers(site, host) and _is_page(request):
            self._note(f"The page leads to {host}, outside of {site}. Action open opens it, without being signed in.")
            return False
        if request.method in READS:
            return True
        body = request.post_data_buffer or b""
        url = request.url.partition("#")[0]
        what = show_hidden(f"{request.method} {url}\n{_show_body(body)}")
        allowed = await self.may(what, SIGNED_IN, about=(request.method, url, body.hex()))
        if not allowed:
            self._note(f"The page was kept from sending something to {host}: nobody agreed to it.")
        return allowed


def _show_body(body: bytes) -> str:
    """All of it, or its beginning and its end: nothing hides behind a long middle without a word."""
    text = body.decode("utf-8", "replace")
    if len(text) <= BODY_CHARS:
        return text
    half = BODY_CHARS // 2
    return f"{text[:half]}\n… ({len(body):,} bytes in all; the middle is not shown) …\n{text[-half:]}"


def _is_page(request: Any) -> bool:
    """Whether it is for a whole tab; one that is just being opened has no frame yet."""
    if not request.is_navigation_request():
        return False
    try:
        return request.frame.parent_frame is None
    except DriverError:
        return True
