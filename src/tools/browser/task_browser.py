"""The browser of one task, inside the helper: its tabs, what happened in them meanwhile, and an open dialog."""

import asyncio
import logging
import time
from collections.abc import Callable, Coroutine, Iterator, Mapping
from contextlib import contextmanager
from itertools import count
from typing import Any
from urllib.parse import urlsplit

from hermes_base.errors import ToolFailure
from hermes_net.proxy_accounts import ProxyAccount
from tools.browser.driver import DriverError
from tools.browser.page_view import ElementNumbers, PageView
from tools.browser.post_gate import PostGate
from tools.browser.post_net import PostNet
from tools.browser.sign_ins import covers

log = logging.getLogger(__name__)

MOST_TABS = 20
MOST_NOTES = 20
MOST_DIALOGS = 20  # of one tab, in one action
CLOSE_SECONDS = 5.0
TITLE_SECONDS = 2.0
ALIVE_SECONDS = 1.0
SHOWN_CHARS = 200
VIEWPORT = {"width": 1280, "height": 800}
SCHEMES = frozenset({"http", "https", "about", "blob", "data", "chrome-error"})
WEB = frozenset({"http", "https"})
ANSWERED_FOR_IT = {"alert": "accepted", "beforeunload": "accepted"}


#: Makes a context: clean, or with what is kept of a site.
NewContext = Callable[[Mapping[str, Any] | None], Coroutine[Any, Any, Any]]


class BrowserTab:
    def __init__(self, number: int, page: Any, view: PageView, site: str) -> None:
        self.number, self.page, self.view = number, page, view
        self.site = site  # that it is signed in to; empty: none
        self.dialogs = 0  # since the last action
        self.is_stuck = False  # its script did not let go, it crashed, or it shows that a page failed

    @property
    def host(self) -> str:
        parts = urlsplit(self.page.url)
        return parts.hostname or "" if parts.scheme in WEB else ""

    async def answers(self) -> bool:
        """Whether its page answers at all; if not, it is given up."""
        try:
            async with asyncio.timeout(ALIVE_SECONDS):
                await self.page.evaluate("1")
        except DriverError:
            return True
        except TimeoutError:
            self.is_stuck = True
        return not self.is_stuck

    async def title(self) -> str:
        try:
            async with asyncio.timeout(TITLE_SECONDS):
                return shorten(await self.page.title())
        except (DriverError, TimeoutError):  # it is gone or hangs
            return ""


class TaskBrowser:
    """Belongs to the event loop of the helper; one action at a time."""

    def __init__(self, new_context: NewContext, account: ProxyAccount, net: PostNet) -> None:
        self.account = account  # with the proxy: its pages count as this task's
        self.lock = asyncio.Lock()
        self.tabs: dict[int, BrowserTab] = {}
        self.current = 0
        self.used = time.monotonic()
        self.dialog: Any = None  # open, and waiting for an answer
        self.dialog_told = False
        self.dialog_opened = asyncio.Event()
        self.blocked: asyncio.Future[Any] | None = None  # what the dialog holds up
        self.wanted_download: asyncio.Future[Any] | None = None
        self._other_tabs = frozenset[int]()  # that have nothing to do with it
        self._new_context = new_context
        self._contexts: dict[str, Any] = {}  # by the site that is signed in to; empty: the clean one
        self._notes: list[str] = []
        self.gate = PostGate(self.note, net)
        self._numbers = ElementNumbers()
        self._tab_numbers = count(1)
        self._is_acting = False
        self._chores: set[asyncio.Task[Any]] = set()

    # --- tabs

    def tab(self) -> BrowserTab:
        """The tab in front."""
        found = self.tabs.get(self.current)
        if found is None:
            raise ToolFailure("No page is open.", fix="Open one with action open.")
        return found

    async def fresh_tab(self, sign_in: Mapping[str, Any] | None = None) -> BrowserTab:
        """The tab in front for another page, or a new one where that does not answer or is of another site."""
        tab, site = self.tabs.get(self.current), sign_in["site"] if sign_in else ""
        if tab is not None and not tab.is_stuck and tab.site == site and await tab.answers():
            return tab
        if tab is not None and (tab.is_stuck or tab.page.url == "about:blank"):
            await self.close_tab(tab)
        return await self.add_tab(sign_in)

    async def add_tab(self, sign_in: Mapping[str, Any] | None = None) -> BrowserTab:
        site = sign_in["site"] if sign_in else ""
        if site not in self._contexts:
            await self._add_context(site, sign_in)
        page = await self._contexts[site].new_page()
        if site:
            await self.gate.watch_answers(self._contexts[site], page)
        tab = self._known(page) or self._note_tab(page, site)
        self.current = tab.number
        return tab

    @contextmanager
    def wanting_download(self, tab: BrowserTab | None) -> Iterator["asyncio.Future[Any]"]:
        """The next file that this tab offers, or one opened from now on: the others may offer what they like."""
        self._other_tabs = frozenset(self.tabs) - {tab.number if tab is not None else 0}
        self.wanted_download = asyncio.get_running_loop().create_future()
        try:
            yield self.wanted_download
        finally:
            self.wanted_download = None

    async def read_cookies(self, site: str) -> list[dict[str, Any]]:
        """Those that a site has now, newer than what is kept of it."""
        return list(await self._contexts[site].cookies())

    async def close_tab(self, tab: BrowserTab) -> None:
        self.tabs.pop(tab.number, None)
        if self.current == tab.number:
            self.current = max(self.tabs, default=0)
        await close_quietly(tab.page)

    async def close(self) -> None:
        for chore in tuple(self._chores):
            chore.cancel()
        if self.blocked is not None:
            self.blocked.cancel()
        self.tabs.clear()
        for context in self._contexts.values():
            await close_quietly(context)

    # --- what an action is framed by

    def begin(self) -> None:
        self.used, self._is_acting = time.monotonic(), True
        for tab in self.tabs.values():
            tab.dialogs = 0

    def end(self) -> None:
        self.used, self._is_acting = time.monotonic(), False
        self.gate.end()

    def take_notes(self) -> list[str]:
        """What happened since the last action, to be told with this one."""
        told, self._notes = self._notes, []
        return told

    def note(self, text: str) -> None:
        if text not in self._notes:
            self._notes = [*self._notes[-MOST_NOTES + 1 :], text]

    async def answer_dialog(self, accept: bool, text: str | None = None) -> str:
        """Answer the dialog that is open, and let go on what it held up; says what it was."""
        dialog, self.dialog = self.dialog, None
        self.dialog_opened.clear()
        told = describe_dialog(dialog)
        if accept:
            await dialog.accept(text) if dialog.type == "prompt" else await dialog.accept()
        else:
            await dialog.dismiss()
        return told

    # --- what pages do

    async def _add_context(self, site: str, sign_in: Mapping[str, Any] | None) -> None:
        context = await self._new_context(sign_in["state"] if sign_in else None)
        self._contexts[site] = context
        if site:
            await self.gate.watch(context, site)
        context.on("page", lambda page: self._take_page(context, page, site))

    def _take_page(self, context: Any, page: Any, site: str) -> None:
        self._note_tab(page, site)
        if site:
            self._do(self.gate.watch_answers(context, page))

    def _known(self, page: Any) -> BrowserTab | None:
        return next((tab for tab in self.tabs.values() if tab.page is page), None)

    def _note_tab(self, page: Any, site: str) -> BrowserTab:
        known = self._known(page)
        if known is not None:
            return known
        tab = BrowserTab(next(self._tab_numbers), page, PageView(self._numbers), site)
        if len(self.tabs) >= MOST_TABS:
            self.note(f"The page wanted another tab; {MOST_TABS} are open, so it was closed.")
            self._do(close_quietly(page))
            return tab
        self.tabs[tab.number] = tab
        if not self.current:
            self.current = tab.number
        page.on("popup", lambda popup: self._take_popup(tab, popup))
        page.on("dialog", lambda dialog: self._do(self._take_dialog(tab, dialog)))
        page.on("download", lambda download: self._do(self._take_download(tab, download)))
        page.on("crash", lambda *_: self._take_crash(tab))
        page.on("close", lambda *_: self._take_close(tab))
        page.on("framenavigated", lambda frame: self._take_navigation(tab, frame))
        return tab

    def _take_popup(self, opener: BrowserTab, popup: Any) -> None:
        """What the page in front opens while it is used is in front then; others would take its place behind one's
        back."""
        tab = self._known(popup)
        if tab is None:
            return  # it was closed already
        if self._is_acting and self.current == opener.number:
            self.current = tab.number
            self.note(f"A new tab opened and is in front now: tab {tab.number}.")
        else:
            self.note(f"A new tab opened, which is not in front: tab {tab.number}.")

    async def _take_dialog(self, tab: BrowserTab, dialog: Any) -> None:
        tab.dialogs += 1
        told = describe_dialog(dialog)
        if tab.dialogs > MOST_DIALOGS:
            self.note(f"Tab {tab.number} opened one dialog after the other and was closed.")
            await self.close_tab(tab)
        elif dialog.type in ANSWERED_FOR_IT or self.dialog is not None:
            self.note(f"{told} It was {ANSWERED_FOR_IT.get(dialog.type, 'dismissed')}.")
            await (dialog.accept() if dialog.type in ANSWERED_FOR_IT else dialog.dismiss())
        else:
            self.dialog, self.dialog_told = dialog, False
            self.dialog_opened.set()

    async def _take_download(self, tab: BrowserTab, download: Any) -> None:
        wanted = self.wanted_download
        if wanted is not None and not wanted.done() and tab.number not in self._other_tabs:
            wanted.set_result(download)
            return
        name = shorten(download.suggested_filename)
        self.note(f"The page offered the file {name}; action download, with the same element, keeps it.")
        await download.cancel()

    def _take_crash(self, tab: BrowserTab) -> None:
        tab.is_stuck = True
        self.note(f"Tab {tab.number} crashed. Open its page again.")

    def _take_close(self, tab: BrowserTab) -> None:
        if self.tabs.pop(tab.number, None) is not None:
            self.note(f"Tab {tab.number} was closed by its page.")
            if self.current == tab.number:
                self.current = max(self.tabs, default=0)

    def _take_navigation(self, tab: BrowserTab, frame: Any) -> None:
        parts = urlsplit(frame.url)
        if frame.parent_frame is not None:
            return
        if parts.scheme not in SCHEMES:
            self.note(f"The page led to a {parts.scheme}: address, which is not opened.")
            self._do(self.close_tab(tab))
        elif tab.site and parts.hostname and parts.scheme in WEB and not covers(tab.site, parts.hostname):
            self.note(
                f"The page led to {parts.hostname}, outside of {tab.site}; the tab was closed. Action open opens it."
            )
            self._do(self.close_tab(tab))

    def _do(self, work: Coroutine[Any, Any, Any]) -> None:
        """Something that an event calls for; what becomes of the page meanwhile is nobody's fault."""

        async def run() -> None:
            try:
                await work
            except DriverError as error:
                log.debug("an event of a page came too late: %s", type(error).__name__)

        chore = asyncio.ensure_future(run())
        self._chores.add(chore)
        chore.add_done_callback(self._chores.discard)


def describe_dialog(dialog: Any) -> str:
    return f'The page opened a dialog ({dialog.type}): "{shorten(dialog.message)}".'


def shorten(text: str) -> str:
    text = " ".join(str(text).split())
    return text if len(text) <= SHOWN_CHARS else text[:SHOWN_CHARS] + "…"


async def close_quietly(what: Any) -> None:
    try:
        async with asyncio.timeout(CLOSE_SECONDS):
            await what.close()
    except (DriverError, TimeoutError) as error:  # it is closed already, or its process is gone
        log.debug("closing failed: %s", type(error).__name__)
