"""What leaves the browser on a site that a person is signed in to, inside the helper: posts and uploads, to whichever
host, are held until the person has agreed; a page of that site is foreign text itself. What was shown is what is
sent."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any
from urllib.parse import urlsplit

from hermes_base.text.harmless import show_hidden
from tools.browser.driver import DriverError
from tools.browser.sign_ins import covers

MOST_QUESTIONS = 5  # in one action
BODY_CHARS = 2000
_READS = frozenset({"GET", "HEAD", "OPTIONS"})

Asker = Callable[[str], Awaitable[bool]]


class PostGate:
    """Of one task: whom to ask just now. Between actions nobody is there, and nothing is sent."""

    def __init__(self, note: Callable[[str], None]) -> None:
        self._note = note
        self._ask: Asker | None = None
        self._answers: dict[tuple[str, str, str], bool] = {}
        self._one_at_a_time = asyncio.Lock()
        self._open = 0
        self.settled = asyncio.Event()  # no question is open
        self.settled.set()

    def begin(self, ask: Asker) -> None:
        self._ask = ask
        self._answers = {}

    def end(self) -> None:
        """From now on nobody can be asked."""
        self._ask = None

    async def watch(self, context: Any, site: str) -> None:
        """Look at every request of a context that is signed in to a site."""

        async def judge(route: Any) -> None:
            try:
                # Given up, and not failed: a page that leads elsewhere stays as it is.
                await (route.continue_() if await self._allows(route.request, site) else route.abort("aborted"))
            except DriverError:
                return  # its page has gone

        await context.route("**/*", judge)

    async def may(self, what: str, *, about: tuple[str, str, str]) -> bool:
        """Whether something may be sent; asked for once, if it has to be."""
        self._open += 1
        self.settled.clear()
        try:
            async with self._one_at_a_time:
                if about not in self._answers:
                    ask = self._ask if len(self._answers) < MOST_QUESTIONS else None
                    self._answers[about] = await ask(what) if ask is not None else False
                return self._answers[about]
        finally:
            self._open -= 1
            if not self._open:
                self.settled.set()

    async def _allows(self, request: Any, site: str) -> bool:
        host = urlsplit(request.url).hostname or ""
        if not covers(site, host) and _is_page(request):
            self._note(f"The page leads to {host}, outside of {site}. Action open opens it, without being signed in.")
            return False
        if request.method in _READS:
            return True
        body = request.post_data_buffer or b""
        url = request.url.partition("#")[0]
        what = show_hidden(f"{request.method} {url}\n{_show_body(body)}")
        allowed = await self.may(what, about=(request.method, url, body.hex()))
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
