"""Signing in by hand: a window in which a person does it, and what the site then knows them by is kept.

It runs in the process of whoever asks for it, through the same proxy as the helper.
"""

import asyncio
import os
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any

from hermes_base.errors import ConfigProblem
from hermes_base.settings import Settings
from hermes_net.address_rules import read_rules
from hermes_net.filter_proxy import FilterProxy, use_proxy
from hermes_net.proxy_accounts import ProxyAccount
from tools.browser.acting import read_url
from tools.browser.driver import DriverError, start_driver
from tools.browser.launching import explain_start, find_browser, make_options

LOOK_SECONDS = 1.0
SCREENS = ("DISPLAY", "WAYLAND_DISPLAY")
ELSEWHERE = "Sign in with a browser elsewhere, export its cookies, and take them over: hermes browser cookies import"
#: Ends when the person is done, in whatever way they say so; gets the page that was opened.
UntilDone = Callable[[Any], Awaitable[None]]


async def sign_in(url: str, settings: Settings, until_done: UntilDone, *, visible: bool = True) -> dict[str, Any]:
    """Cookies and what pages kept, as they were when the person was done or closed the window; ConfigProblem when
    there is no window."""
    url = read_url(url)
    if visible and not any(os.environ.get(name) for name in SCREENS):
        raise ConfigProblem("There is no screen here that a window could be opened on.", fix=ELSEWHERE)
    proxy = FilterProxy()
    account = proxy.add_account(ProxyAccount(read_rules(settings.network.private)))
    await proxy.start()
    try:
        async with start_driver() as driver:
            options = make_options(find_browser(settings.browser), use_proxy(proxy, account), visible=visible)
            browser = await driver.chromium.launch(**options)
            context = await browser.new_context(no_viewport=True)
            page = await context.new_page()
            with suppress(DriverError):  # the window shows it, and another address can be typed there
                await page.goto(url, wait_until="commit")
            state = await _watch(context, page, until_done)
            await browser.close()
            return state
    except DriverError as error:
        raise ConfigProblem(f"The window could not be opened: {explain_start(error)}.", fix=ELSEWHERE) from error
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
