"""Browsers that somebody else lends, one for each task (`browser.cloud_provider`): who lends them, and which are out.

What belongs to the plugin behind a lender is on its side; a browser goes back when its task ends, when it is lost, and
when the process ends.
"""

import atexit
import threading
from typing import NamedTuple, Protocol

from hermes_base.errors import ToolFailure

SETTING = "browser.cloud_provider"


class LentBrowser(NamedTuple):
    """One that is out."""

    session: str  # what its lender calls it
    address: str  # of its DevTools


class BrowserLender(Protocol):
    """Somebody who lends browsers; a plugin's provider is wrapped in one of these."""

    name: str  # the value of the setting

    def find_missing(self) -> str:
        """What it lacks, in words; empty: nothing. Asks nobody."""

    def lend(self, task: str) -> LentBrowser:
        """ToolFailure with a sentence when there is none."""

    def take_back(self, session: str) -> None:
        """Waits for nobody."""

    def take_back_now(self, session: str) -> None:
        """The process ends."""


class LentBrowsers:
    """Who lends, and what is out."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._lenders: dict[str, BrowserLender] = {}
        self._out: dict[str, tuple[BrowserLender, LentBrowser]] = {}  # by task

    def register(self, lender: BrowserLender) -> None:
        with self._lock:
            self._lenders[lender.name] = lender

    def deregister(self, name: str) -> None:
        """Nobody lends under this name any more; what is out stays out until its task ends."""
        with self._lock:
            self._lenders.pop(name, None)

    def find_missing(self, name: str) -> str:
        lender = self._lenders.get(name.strip())
        return (
            lender.find_missing() if lender is not None else f"{SETTING} is '{name}', and no plugin lends such browsers"
        )

    def get(self, name: str, task: str) -> str:
        """Where the task's browser is reached, borrowed if it has none; a task does one thing at a time."""
        known = self._out.get(task)
        if known is not None:
            return known[1].address
        lender = self._lenders.get(name.strip())
        if lender is None or (missing := lender.find_missing()):
            why = missing if lender is not None else self.find_missing(name)
            raise ToolFailure(f"There is no browser: {why}.", fix=f"Put it right, or empty {SETTING}.")
        lent = lender.lend(task)
        with self._lock:
            self._out[task] = (lender, lent)
        return lent.address

    def give_back(self, task: str) -> None:
        with self._lock:
            lender, lent = self._out.pop(task, (None, None))
        if lender is not None and lent is not None:
            lender.take_back(lent.session)

    def give_back_all(self) -> None:
        """The process ends."""
        with self._lock:
            out, self._out = list(self._out.values()), {}
        for lender, lent in out:
            lender.take_back_now(lent.session)


lent_browsers = LentBrowsers()
atexit.register(lent_browsers.give_back_all)
