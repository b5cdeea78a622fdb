"""The last look at what leaves a browser that is signed in to sites: nothing is sent but what was agreed to.

Each page is looked at while it is there (`post_gate.py`), and the look at it ends with it: what it sends in its last
moment, or has the browser send when it has gone, would leave unseen. This look is at the browser as a whole, and ends
with that.
"""

import asyncio
import base64
from collections import Counter
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

import httpx2

from tools.browser.driver import DriverError

READS = frozenset({"GET", "HEAD", "OPTIONS"})
AGREED_SECONDS = 30.0  # that what was agreed to has until it leaves

_Sending = tuple[str, str, bytes]


class PostNet:
    """Knows what may leave, each once, and lets nothing else through."""

    def __init__(self) -> None:
        self._agreed: Counter[_Sending] = Counter()
        self._browser: Any = None
        self._chores: set[asyncio.Task[None]] = set()

    def holds(self, browser: Any) -> bool:
        """Whether all that leaves this browser comes by here."""
        return browser is not None and browser is self._browser

    def agree(self, method: str, url: str, body: bytes) -> None:
        """It is about to be sent, with somebody's consent."""
        sending = method, write_plainly(url), body
        self._agreed[sending] += 1
        asyncio.get_running_loop().call_later(AGREED_SECONDS, self._take, sending)

    async def spread(self, browser: Any) -> None:
        """From now on everything that leaves this browser comes by here."""
        session = await browser.new_browser_cdp_session()

        async def judge(paused: Mapping[str, Any]) -> None:
            order, request = {"requestId": paused["requestId"]}, paused["request"]
            sending = request["method"], write_plainly(request["url"]), read_body(request)
            with suppress(DriverError):  # nobody waits for it any more
                if request["method"] in READS or self._take(sending):
                    await session.send("Fetch.continueRequest", order)
                else:
                    await session.send("Fetch.failRequest", {**order, "errorReason": "Aborted"})

        def take(paused: Mapping[str, Any]) -> None:
            self._chores.add(chore := asyncio.ensure_future(judge(paused)))
            chore.add_done_callback(self._chores.discard)

        session.on("Fetch.requestPaused", take)
        await session.send("Fetch.enable", {"patterns": [{"urlPattern": "*"}]})
        self._browser = browser

    def _take(self, sending: _Sending) -> bool:
        """Whether it was agreed to; from now on it is not."""
        known = self._agreed[sending] > 0
        self._agreed[sending] -= known
        if not self._agreed[sending]:
            del self._agreed[sending]
        return known


def read_body(request: Mapping[str, Any]) -> bytes:
    """What DevTools tell of what is sent along, of files nothing."""
    entries = [base64.b64decode(one.get("bytes", "")) for one in request.get("postDataEntries", ())]
    return b"".join(entries) or str(request.get("postData", "")).encode()


def write_plainly(url: str) -> str:
    """One of the forms in which an address can be written."""
    try:
        return str(httpx2.URL(url.partition("#")[0]))
    except (httpx2.InvalidURL, ValueError):
        return url
