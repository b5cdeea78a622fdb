"""Signing in by hand: a window in which a person does it, and what the site then knows them by is kept.

It runs in the process of whoever asks for it, through the same proxy as the helper.
"""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

from hermes_base.settings import Settings
from hermes_net.address_rules import read_rules
from hermes_net.filter_proxy import FilterProxy, use_proxy
from hermes_net.proxy_accounts import ProxyAccount
from tools.browser.driver import DriverError, start_driver
from tools.browser.launching import find_browser, make_options

LOOK_SECONDS = 1.0
#: Ends when the person is done, in whatever way they say so; gets the page that was opened.
UntilDone = Callable[[Any], Awaitable[None]]


async def sign_in(url: str, settings: Settings, until_done: UntilDone, *, visible: bool = True) -> dict[str, Any]:
    """Cookies and what pages kept, as they were when the person was done or closed the window."""
    proxy = FilterProxy()
    account = proxy.add_account(ProxyAccount(read_rules(settings.network.private)))
    await proxy.start()
    try:
        async with start_driver() as driver:
            options = make_options(find_browser(settings.browser), use_proxy(proxy, account), visible=visible)
            browser = await driver.chromium.launch(**options)
            context = await browser.new_context(no_viewport=True)
            page = await context.new_page()
            await page.goto(url, wait_until="commit")
            state = await _watch(context, page, until_done)
            await browser.close()
            return state
    finally:
        await proxy.stop()


async def _watch(context: Any, page: Any, until_done: UntilDone) -> dict[str, Any]:
    """Look again and again: when the window is closed, what it knew is gone with it."""
    state: dict[str, Any] = {}
    done = asyncio.ensure_future(until_done(page))
    try:
        while context.pages:
            finished, _ = await asyncio.wait((done,), timeout=LOOK_SECONDS)
            state = await context.storage_state()
            if finished:
                done.result()
                break
    except DriverError:
        return state  # closed while we looked
    finally:
        done.cancel()
    return state
