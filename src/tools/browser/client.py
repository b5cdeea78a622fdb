"""Hermes's side of the browser: starts the helper under the keeper when it is first needed, and hands it orders.

There is one helper for all tasks. When it ends, by a crash or because somebody killed it, the next call starts
another one, and each task is told that its tabs are gone.
"""

import itertools
import json
import logging
import queue
import shutil
import socket
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from hermes_base.errors import ToolFailure
from hermes_base.settings import Settings
from hermes_base.turn.cancel import CancelToken
from tools.browser.launching import find_browser, find_missing, make_environment
from tools.browser.lending import lent_browsers
from tools.shell.spawning import Order, keeper

log = logging.getLogger(__name__)

HELPER = "tools.browser.helper"
START_SECONDS = 60.0
TURN_SECONDS = 0.2
PATIENCE_SECONDS = 25.0  # beyond the time of an action, until the helper itself counts as stuck
LOST = "The browser ended unexpectedly, and its tabs with it."
LOST_FIX = "Open the page again; the browser starts anew."
RESTARTED = "Note: the browser had ended and was started again; the tabs that were open are gone."
CLOSED_IDLE = "Note: the tabs were closed because nobody had used them for a long time."

Event = Mapping[str, Any]
Asking = Callable[[str, str], bool]  # what is to be sent, and why it is asked


class HelperGone(Exception):
    """The helper ended before it answered."""


class PageFailure(ToolFailure):
    """An action came to nothing; what is said of it may hold words of a page."""


class HelperLine:
    """The connection to one helper process. Orders are sent by a thread, so that nobody waits for the helper."""

    def __init__(self, settings: Settings) -> None:
        self._lock = threading.Lock()
        self._waiting: dict[int, queue.SimpleQueue[Event]] = {}
        self._first: queue.SimpleQueue[Event] = queue.SimpleQueue()
        self._orders: queue.SimpleQueue[Event | None] = queue.SimpleQueue()
        self.lost = False
        self.idle: set[str] = set()  # tasks whose tabs it closed by itself
        self.fallen: set[str] = set()  # tasks whose lent browser ended
        self.tasks: set[str] = set()  # with tabs
        self._folder = tempfile.mkdtemp(prefix="browser-", dir=keeper.scratch())
        self._sock, theirs = socket.socketpair()
        with theirs:
            words = [sys.executable, "-P", "-m", HELPER]
            order = Order(words, self._folder, make_environment(self._folder, sys.path))
            self.running = keeper.start(order, line=theirs)
        self.running.finish()
        self.running.spool.close()
        threading.Thread(target=self._read, name="browser-answers", daemon=True).start()
        threading.Thread(target=self._send, name="browser-orders", daemon=True).start()
        self.facts = _describe_start(settings)
        self._orders.put({**self.facts, "folder": self._folder})

    def wait_ready(self, cancel: CancelToken) -> None:
        forget = cancel.on_cancel(lambda: self._first.put({"stopped": True}))
        try:
            told = self._first.get(timeout=START_SECONDS)
        except queue.Empty:
            told = {"failed": f"it was not ready within {START_SECONDS:g} seconds"}
        finally:
            forget()
        if not told.get("ready"):
            self.end()
            cancel.check()
            why = told.get("failed") or "it ended at once"
            log.warning("the browser could not be started: %s", why)
            raise ToolFailure(f"The browser could not be started: {why}.", fix="`hermes doctor` says what it needs.")

    def call(self, order: Mapping[str, Any], seconds: float, cancel: CancelToken, ask: Asking) -> Event:
        """The helper's answer, after whatever it has to ask; HelperGone when there is none."""
        id = next(_ids)
        answers: queue.SimpleQueue[Event] = queue.SimpleQueue()
        with self._lock:
            if self.lost:
                raise HelperGone
            self._waiting[id] = answers
        self._orders.put({**order, "id": id})
        forget = cancel.on_cancel(lambda: answers.put({"stopped": True}))
        try:
            while "ask" in (answer := answers.get(timeout=seconds + PATIENCE_SECONDS)):
                self._orders.put({"do": "answer", "id": id, "allow": ask(answer["ask"], answer["why"])})
        except queue.Empty:
            log.warning("the browser's helper does not answer; it is ended")
            self.end()
            raise HelperGone from None
        finally:
            forget()
            with self._lock:
                self._waiting.pop(id, None)
        if answer.get("stopped"):
            self._orders.put({"do": "cancel", "id": id})
            cancel.check()
        if answer.get("gone"):
            raise HelperGone
        return answer

    def close_task(self, task: str) -> None:
        """Waits for nobody."""
        for known in (self.tasks, self.idle, self.fallen):
            known.discard(task)
        self._orders.put({"do": "close", "task": task})

    def end(self) -> None:
        self.running.end()

    def _read(self) -> None:
        try:
            with self._sock.makefile("rb") as lines:
                for line in lines:
                    self._take(line)
        except OSError as problem:
            log.debug("the line to the browser's helper broke: %s", problem)
        with self._lock:
            self.lost = True
            waiting = list(self._waiting.values())
        self._orders.put(None)
        for answers in (*waiting, self._first):
            answers.put({"gone": True})
        for task in tuple(self.tasks):
            lent_browsers.give_back(task)
        if self.running.ended.wait(START_SECONDS):
            shutil.rmtree(self._folder, ignore_errors=True)

    def _take(self, line: bytes) -> None:
        try:
            told = json.loads(line)
        except ValueError:  # what Python says when the helper cannot even begin
            log.warning("the browser's helper: %s", line[:300].decode("utf-8", "replace").strip())
            return
        if "over" in told:
            (self.fallen if told["lost"] else self.idle).add(told["over"])
            self.tasks.discard(told["over"])
            lent_browsers.give_back(told["over"])
            return
        if "id" not in told:
            self._first.put(told)
            return
        with self._lock:
            answers = self._waiting.get(told["id"])
        if answers is not None:
            answers.put(told)

    def _send(self) -> None:
        try:
            while (order := self._orders.get()) is not None:
                self._sock.sendall(json.dumps(order).encode() + b"\n")
        except OSError as problem:
            log.debug("the browser's helper takes no orders any more: %s", problem)
        finally:
            self._sock.close()


class BrowserClient:
    def __init__(self) -> None:
        self._lock = threading.Lock()  # held for moments
        self._starting = threading.Lock()  # held for as long as a helper takes to start
        self._line: HelperLine | None = None
        self._lost_tasks: set[str] = set()
        self._turns: dict[str, threading.Lock] = {}

    @property
    def pid(self) -> int | None:
        """Of the process that answers for the helper and everything below it; None: there is none."""
        line = self._line
        return line.running.pid if line is not None and not line.lost else None

    def act(
        self,
        task: str,
        order: Mapping[str, Any],
        settings: Settings,
        cancel: CancelToken,
        ask: Asking,
    ) -> dict[str, Any]:
        """What came of an action, with a word in front where tabs were lost before; ToolFailure otherwise. A task does
        one thing at a time: the others of a round wait here, where no clock runs."""
        with self._lock:
            turn = self._turns.setdefault(task, threading.Lock())
        with _wait_turn(turn, cancel):
            return self._act(task, order, settings, cancel, ask)

    def _act(
        self,
        task: str,
        order: Mapping[str, Any],
        settings: Settings,
        cancel: CancelToken,
        ask: Asking,
    ) -> dict[str, Any]:
        for _ in range(2):
            line = self._open(settings, cancel)
            had_tabs = task in line.tasks
            lender = settings.browser.cloud_provider
            lent = {"lent": lent_browsers.get(lender, task)} if lender else {}
            try:
                answer = line.call({"do": "act", "task": task, **lent, **order}, order["seconds"], cancel, ask)
            except HelperGone:
                lent_browsers.give_back(task)
                if had_tabs:
                    self._forget(line)
                    self._lost_tasks.discard(task)
                    raise ToolFailure(LOST, fix=LOST_FIX) from None
                continue  # it was about to leave, since nothing was open in it
            if answer["tabs"]:
                line.tasks.add(task)
            elif lent:  # nothing is open in it
                line.close_task(task)
                lent_browsers.give_back(task)
            return self._tell(task, line, answer)
        raise ToolFailure("The browser ends again and again.", fix="`hermes doctor` says what it needs.")

    def close_task(self, task: str) -> None:
        line = self._line
        self._lost_tasks.discard(task)
        self._turns.pop(task, None)
        if line is not None:
            line.close_task(task)
        lent_browsers.give_back(task)

    def close(self) -> None:
        """End the browser, if there is one."""
        with self._starting, self._lock:
            line, self._line = self._line, None
        if line is not None:
            line.end()
            line.running.ended.wait(START_SECONDS)

    def _open(self, settings: Settings, cancel: CancelToken) -> HelperLine:
        """The helper that runs, or a new one. Whoever waits while another task starts it can be stopped (C4)."""
        with _wait_turn(self._starting, cancel):
            line = self._find_line(settings)
            if line is None:
                if (missing := find_missing(settings.browser)) is not None:
                    raise ToolFailure(missing.what, fix=missing.fix)
                line = HelperLine(settings)
                line.wait_ready(cancel)
                with self._lock:
                    self._line = line
            return line

    def _find_line(self, settings: Settings) -> HelperLine | None:
        with self._lock:
            if self._line is not None and self._line.lost:
                self._drop(self._line)
            if self._line is not None and not self._line.tasks and self._line.facts != _describe_start(settings):
                self._line.end()  # the settings changed, and nobody has anything open
                self._line = None
            return self._line

    def _forget(self, line: HelperLine) -> None:
        with self._lock:
            if self._line is line:
                self._drop(line)

    def _drop(self, line: HelperLine) -> None:
        """The caller holds the lock."""
        self._lost_tasks |= line.tasks
        self._line = None

    def _tell(self, task: str, line: HelperLine, answer: Event) -> dict[str, Any]:
        notes = []
        if task in self._lost_tasks or task in line.fallen:
            self._lost_tasks.discard(task)
            line.fallen.discard(task)
            notes.append(RESTARTED)
        if task in line.idle:
            line.idle.discard(task)
            notes.append(CLOSED_IDLE)
        if "error" in answer:
            raise PageFailure(" ".join((*notes, answer["error"])))
        result = dict(answer["result"])
        result["text"] = "\n".join((*notes, result["text"]))
        return result


@contextmanager
def _wait_turn(lock: threading.Lock, cancel: CancelToken) -> Iterator[None]:
    """Hold a lock that others may hold for long; a stop of the turn ends the wait."""
    while not lock.acquire(timeout=TURN_SECONDS):
        cancel.check()
    try:
        yield
    finally:
        lock.release()


def _describe_start(settings: Settings) -> Event:
    """What `HelperStart` of the helper says, without its folder."""
    return {
        "private": list(settings.network.private),
        "program": "" if settings.browser.cloud_provider else find_browser(settings.browser),
        "cdp_url": "" if settings.browser.cloud_provider else settings.browser.cdp_url,
        "idle_seconds": settings.browser.idle_minutes * 60,
    }


_ids = itertools.count(1)
browser_client = BrowserClient()
