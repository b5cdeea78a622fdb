"""The helper: a process that drives the browser and runs the proxy. It takes orders on the socket that it was started
with, one JSON object a line, and ends when Hermes is gone, when the browser has ended, or when no task needs it.

Its first order says what it needs to know (`HelperStart`); its first answer is `{"ready": true}`, or says what failed.
"""

import asyncio
import json
import logging
import os
import socket
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from hermes_base.errors import HermesError
from hermes_base.text.addresses import is_local
from hermes_net.address_rules import read_rules
from hermes_net.call_values import AddressRefused
from hermes_net.filter_proxy import FilterProxy, make_room, use_proxy
from hermes_net.lookup import find_addresses
from hermes_net.proxy_accounts import ProxyAccount
from tools.browser.acting import Act, perform
from tools.browser.driver import DriverError, start_driver
from tools.browser.launching import explain_start, make_options
from tools.browser.page_view import ENGINE, read_engine
from tools.browser.post_net import PostNet
from tools.browser.task_browser import VIEWPORT, TaskBrowser, close_quietly, shorten

log = logging.getLogger(__name__)

LINE_BYTES = 64 * 1024 * 1024  # an upload travels in one line
CHORE_SECONDS = 5.0
PORTS = {"http": 80, "ws": 80}
UNUSED_SECONDS = 60.0  # without any task


@dataclass(frozen=True, slots=True)
class HelperStart:
    """What the helper is told when it starts."""

    private: tuple[str, ...]  # `network.private`
    program: str
    cdp_url: str
    idle_seconds: float
    folder: str


class BrowserHelper:
    def __init__(self, start: HelperStart, writer: asyncio.StreamWriter) -> None:
        self._start = start
        self._writer = writer
        self._rules = read_rules(start.private)
        self._proxy = FilterProxy()
        self._browser: Any = None
        self._signed_in: asyncio.Future[Any] | None = None  # a browser of its own, for tabs that are signed in
        self._net = PostNet()
        self._driver: Any = None
        self._tasks: dict[str, TaskBrowser] = {}
        self._lent: dict[str, Any] = {}  # browsers of tasks that have their own
        self._running: dict[int, asyncio.Task[None]] = {}
        self._questions: dict[int, asyncio.Future[bool]] = {}  # by the order that they came up in
        self._unused_since = time.monotonic()
        self.ended = asyncio.Event()

    async def open(self) -> None:
        await self._proxy.start()
        self._driver = await start_driver().start()
        await self._driver.selectors.register(ENGINE, read_engine(), content_script=True)
        chromium = self._driver.chromium
        if not self._start.cdp_url and not self._start.program:
            return  # each task has a browser that somebody lends
        if self._start.cdp_url:
            self._browser = await chromium.connect_over_cdp(self._start.cdp_url)
        else:
            self._browser = await self._launch()
            return
        self._browser.on("disconnected", lambda *_: self.ended.set())

    async def _launch(self) -> Any:
        own = self._proxy.add_account(ProxyAccount(self._rules))  # what belongs to no task
        options = make_options(self._start.program, use_proxy(self._proxy, own))
        downloads = Path(self._start.folder, "downloads")
        browser = await self._driver.chromium.launch(**options, downloads_path=str(downloads))
        browser.on("disconnected", lambda *_: self.ended.set())
        return browser

    async def _launch_signed_in(self) -> Any:
        browser = await self._launch()
        await self._net.spread(browser)
        return browser

    async def _find_signed_in(self, browser: Any) -> Any:
        """In the place of our own, one in which all that leaves is seen. Somebody else's has other tabs in it, too."""
        if browser is not self._browser or self._start.cdp_url:
            return browser
        if self._signed_in is None:
            self._signed_in = asyncio.ensure_future(self._launch_signed_in())
        try:
            return await asyncio.shield(self._signed_in)
        except DriverError:
            self._signed_in = None
            raise

    async def serve(self, reader: asyncio.StreamReader) -> None:
        """Until Hermes is gone or nothing is left to serve."""
        self._answer({"ready": True})
        orders = asyncio.ensure_future(self._read_orders(reader))
        chores = asyncio.ensure_future(self._do_chores())
        ended = asyncio.ensure_future(self.ended.wait())
        await asyncio.wait((orders, chores, ended), return_when=asyncio.FIRST_COMPLETED)
        for task in (orders, chores, ended):
            task.cancel()
        await asyncio.gather(orders, chores, ended, return_exceptions=True)

    async def _new_context(self, browser: Any, account: ProxyAccount, state: Mapping[str, Any] | None) -> Any:
        """A clean one, or one with a sign-in, where workers would send what nobody sees. It goes to the proxy on its
        task's own account."""
        options: dict[str, Any] = {"proxy": use_proxy(self._proxy, account)}
        if state is not None:
            options |= {"storage_state": dict(state), "service_workers": "block"}
            browser = await self._find_signed_in(browser)
        return await browser.new_context(viewport=VIEWPORT, accept_downloads=True, **options)

    async def _open_task(self, task: str, lent: str) -> TaskBrowser:
        """In our browser, or in one that was lent to the task."""
        browser = await self._connect(task, lent) if lent else self._browser
        if browser is None:
            raise HermesError(
                "Another browser was chosen.", fix="It can be used when all tabs of the old one are closed."
            )
        account = self._proxy.add_account(ProxyAccount(self._rules))
        make = self._new_far_context if lent and not is_local(lent) else self._new_context
        opened = self._tasks[task] = TaskBrowser(partial(make, browser, account), account, self._net)
        return opened

    # --- browsers that are lent

    async def _connect(self, task: str, address: str) -> Any:
        """One on this machine goes through the proxy as ours does. One elsewhere is out of the proxy's reach, so it has
        to stand outside of the owner's networks (G8)."""
        parts = urlsplit(address)
        if not is_local(address):
            await find_addresses(parts.hostname or "", parts.port or PORTS.get(parts.scheme, 443), self._rules)
        browser = self._lent[task] = await self._driver.chromium.connect_over_cdp(address)
        browser.on("disconnected", lambda *_: self._note_lost(task, browser))
        return browser

    def _note_lost(self, task: str, browser: Any) -> None:
        if self._lent.get(task) is browser:
            del self._lent[task]
            if (lost := self._tasks.pop(task, None)) is not None:
                self._proxy.drop_account(lost.account)
                self._answer({"over": task, "lost": True})

    async def _new_far_context(self, browser: Any, account: ProxyAccount, state: Mapping[str, Any] | None) -> Any:
        """Always as nobody: what a person is signed in to is not for a browser elsewhere."""
        del account, state
        context = await browser.new_context(viewport=VIEWPORT, accept_downloads=True)
        await context.route("**/*", self._judge_request)
        return context

    async def _judge_request(self, route: Any) -> None:
        """It looks names up by itself; what leads to a private address from here is not asked for there either."""
        parts = urlsplit(route.request.url)
        try:
            await find_addresses(parts.hostname or "", parts.port or PORTS.get(parts.scheme, 443), self._rules)
        except AddressRefused:
            await route.abort("addressunreachable")
            return
        except OSError:
            pass  # a name that only the browser knows
        await route.continue_()

    async def _read_orders(self, reader: asyncio.StreamReader) -> None:
        while line := await reader.readline():
            order = json.loads(line)
            {
                "act": self._take_act,
                "cancel": self._take_cancel,
                "close": self._take_close,
                "answer": self._take_answer,
            }[order["do"]](order)

    def _take_act(self, order: Mapping[str, Any]) -> None:
        task = asyncio.ensure_future(self._act(order))
        self._running[order["id"]] = task
        task.add_done_callback(lambda _: self._running.pop(order["id"], None))

    def _take_cancel(self, order: Mapping[str, Any]) -> None:
        if (task := self._running.get(order["id"])) is not None:
            task.cancel()

    def _take_answer(self, order: Mapping[str, Any]) -> None:
        answer = self._questions.pop(order["id"], None)
        if answer is not None and not answer.done():
            answer.set_result(bool(order["allow"]))

    async def _ask(self, id: int, what: str, why: str) -> bool:
        """Have Hermes ask the person of the turn."""
        answer: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
        self._questions[id] = answer
        self._answer({"id": id, "ask": what, "why": why})
        return await answer

    def _take_close(self, order: Mapping[str, Any]) -> None:
        if (browser := self._tasks.pop(order["task"], None)) is not None:
            task = asyncio.ensure_future(self._close_task(order["task"], browser))
            self._running[-id(task)] = task
            task.add_done_callback(lambda done: self._running.pop(-id(done), None))

    async def _act(self, order: Mapping[str, Any]) -> None:
        browser = self._tasks.get(order["task"])
        try:
            browser = browser or await self._open_task(order["task"], order.get("lent", ""))
            act = Act(
                order["args"],
                order["seconds"],
                order["chars"],
                Path(self._start.folder, "downloads"),
                browser.account,
                partial(self._ask, order["id"]),
                order["sign_in"],
            )
            answer: dict[str, Any] = {"result": await perform(browser, act)}
        except HermesError as failure:
            answer = {"error": str(failure)}
        except asyncio.CancelledError:
            answer = {"error": "The action was stopped."}
        except Exception as error:  # the boundary to the driver: one call fails, the others go on
            log.exception("an action of the browser failed")
            answer = {"error": f"The browser could not do it: {type(error).__name__}: {shorten(str(error))}"}
        self._take_answer({"id": order["id"], "allow": False})  # nobody is left to answer
        self._answer({"id": order["id"], "tabs": len(browser.tabs) if browser is not None else 0, **answer})

    def _answer(self, answer: Mapping[str, Any]) -> None:
        self._writer.write(json.dumps(answer).encode() + b"\n")

    async def _do_chores(self) -> None:
        """Close what nobody used for long; returns when nothing has been open for a while."""
        while True:
            await asyncio.sleep(CHORE_SECONDS)
            now = time.monotonic()
            for task, browser in list(self._tasks.items()):
                if now - browser.used > self._start.idle_seconds and not browser.lock.locked():
                    del self._tasks[task]
                    await self._close_task(task, browser)
                    self._answer({"over": task, "lost": False})
            if self._tasks or self._running:
                self._unused_since = now
            elif now - self._unused_since > UNUSED_SECONDS:
                return

    async def _close_task(self, task: str, browser: TaskBrowser) -> None:
        lent = self._lent.pop(task, None)
        await browser.close()
        self._proxy.drop_account(browser.account)
        if lent is not None:
            await close_quietly(lent)

    async def close(self) -> None:
        await asyncio.gather(*(browser.close() for browser in self._tasks.values()), return_exceptions=True)
        signed_in = self._signed_in
        beside = signed_in.result() if signed_in and signed_in.done() and not signed_in.exception() else None
        for part, close in ((self._browser, "close"), (beside, "close"), (self._driver, "stop")):
            if part is not None:
                try:
                    async with asyncio.timeout(CHORE_SECONDS):
                        await getattr(part, close)()
                except (DriverError, TimeoutError) as error:  # it has ended already; the keeper does the rest
                    log.debug("closing the browser failed: %s", type(error).__name__)
        await self._proxy.stop()


async def run(line: socket.socket) -> None:
    reader, writer = await asyncio.open_connection(sock=line, limit=LINE_BYTES)
    told = json.loads(await reader.readline())
    start = HelperStart(**{**told, "private": tuple(told["private"])})
    make_room()
    helper = BrowserHelper(start, writer)
    try:
        try:
            await helper.open()
        except Exception as error:  # noqa: BLE001 - told to Hermes, which tells it to people and logs it
            writer.write(json.dumps({"failed": explain_start(error)}).encode() + b"\n")
        else:
            await helper.serve(reader)
    finally:
        await helper.close()
        writer.close()


def main() -> None:
    """The socket is our input; what libraries print goes nowhere."""
    line = socket.socket(fileno=os.dup(0))
    empty = os.open(os.devnull, os.O_RDWR)
    for number in (0, 1, 2):
        os.dup2(empty, number)
    logging.disable()
    sys.exit(asyncio.run(run(line)))


if __name__ == "__main__":
    main()
