"""Gives new conversations a title, beside their turns: the first words at once, then what a short call says.

The first words are stored before the call is made, so that a session is named at most once, over restarts too. What a
person has called it meanwhile stays.
"""

import logging
import threading
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from agent import titles
from agent.providers.runtime import Runtime
from agent.turn.driver import EXCUSES
from gateway.core.meters import Meters
from hermes_base.errors import HermesError
from hermes_base.text.wrappers import bare_words
from hermes_base.turn.cancel import CancelToken
from hermes_base.turn.journal import Row, is_question, shown_text, text_of, visible
from hermes_cli import config as cli_config
from hermes_state.sql.store_sql import Store

log = logging.getLogger(__name__)

#: So many are named at a time, and so many wait for it; beyond that the next turn asks again.
MOST_AT_ONCE, MOST_WAITING = 2, 200
MOST_KNOWN = 10_000
STOP_SECONDS = 1.0
_ROWS = 200  # the first exchange is among them, or the session has no usable one

_OURS = frozenset(f"[{excuse}]" for excuse in EXCUSES.values())
_STOPPED = "[interrupted: "

Told = Callable[[str, str, str], None]  # conversation, session, title; on the titler's thread


@dataclass(frozen=True, slots=True)
class Unnamed:
    conversation: str
    session: str
    runtime: Runtime


class Titler:
    def __init__(self, store: Store, told: Told, meters: Meters) -> None:
        self._store = store
        self._meters = meters
        self._told = told
        self._lock = threading.Condition()
        self._waiting: list[Unnamed] = []
        self._known: dict[str, None] = {}  # sessions that are named or about to be, the oldest first
        self._threads = 0
        self._cancel = CancelToken()
        self._naming = threading.Lock()  # a title is looked at and changed in one step
        self._given: set[str] = set()  # sessions that a person has named while this process ran

    def look_at(self, conversation: str, session: str, runtime: Runtime) -> None:
        """A turn of this session was answered. Returns at once, whatever becomes of the title."""
        with self._lock:
            if session in self._known or self._cancel.cancelled or len(self._waiting) >= MOST_WAITING:
                return
            self._known[session] = None
            if len(self._known) > MOST_KNOWN:
                del self._known[next(iter(self._known))]
            self._waiting.append(Unnamed(conversation, session, runtime))
            if self._threads < MOST_AT_ONCE:
                self._threads += 1
                threading.Thread(target=self._work, name="titles", daemon=True).start()

    def rename(self, session: str, title: str) -> None:
        """A person names it: from now on nobody else does. StoreFailure when there is no such session."""
        with self._naming:
            self._store.set_title(session, title)
            self._given.add(session)

    def stop(self) -> None:
        """Cut what runs; it has a moment to put what it cost into the ledger. Blocks for a second at most."""
        self._cancel.cancel("the gateway stops")
        with self._lock:
            self._waiting.clear()
            self._lock.wait_for(lambda: self._threads == 0, STOP_SECONDS)

    def wait(self, seconds: float) -> bool:
        """Whether all that was asked for is named in this time."""
        with self._lock:
            return self._lock.wait_for(lambda: self._threads == 0, seconds)

    def _work(self) -> None:
        while (unnamed := self._take()) is not None:
            try:
                self._name(unnamed)
            except HermesError as problem:
                log.warning("no title for %s: %s", unnamed.session, problem)
                self._forget(unnamed.session)
            except Exception:  # a thread's top: the next one is named all the same
                log.exception("no title for %s", unnamed.session)

    def _forget(self, session: str) -> None:
        """The next answer is looked at again; a session that has a title is left alone then."""
        with self._lock:
            self._known.pop(session, None)

    def _take(self) -> Unnamed | None:
        with self._lock:
            if self._waiting:
                return self._waiting.pop(0)
            self._threads -= 1
            self._lock.notify_all()
            return None

    def _name(self, unnamed: Unnamed) -> None:
        info = self._store.session(unnamed.session)
        if info is None or info.title:
            return
        rows = visible(row for row, _ in zip(self._store.history(unnamed.session), range(_ROWS), strict=False))
        question, answer = find_exchange(rows)
        plain = titles.first_words(question) or titles.first_words(answer)
        if not plain or not answer:
            self._forget(unnamed.session)
            return
        settings = cli_config.load_last_good()
        given = self._give(unnamed, plain, instead_of="")
        if not (given and question and settings.titles.enabled):
            return
        named = titles.ask_title(settings, unnamed.runtime, question, answer, self._cancel)
        if named.usage:
            self._meters.charge(self._store, unnamed.session, named.usage)
        if named.title:
            self._give(unnamed, named.title, instead_of=plain)

    def _give(self, unnamed: Unnamed, title: str, *, instead_of: str) -> bool:
        """Name the session, and the one that a compaction has put in its place meanwhile; whether any was named."""
        given, begun = False, self._store.session(unnamed.session)
        current = self._store.current(unnamed.conversation)
        goes_on = begun is not None and current is not None and current.task == begun.task
        for session in dict.fromkeys((unnamed.session, current.id if current and goes_on else unnamed.session)):
            with self._naming:
                info = self._store.session(session)
                if info is None or info.title != instead_of or session in self._given:
                    continue  # it is gone, or somebody has named it meanwhile
                self._store.set_title(session, title)
            given = True
            self._told(unnamed.conversation, session, title)
        return given


def find_exchange(rows: Iterable[Row]) -> tuple[str, str]:
    """The first question that the model answered, and what it said last before the next one; both empty without one."""
    question, answer = "", ""
    for row in rows:
        if is_question(row) and answer:
            break
        if is_question(row):
            question = bare_words(shown_text(row))
        elif row.message.get("role") == "assistant":
            text = text_of(row.message)  # a turn that failed or was stopped leaves a word of ours in its place
            answer = text if text.strip() and text not in _OURS and not text.startswith(_STOPPED) else answer
    return (question, answer) if answer else ("", "")
