"""What an editor is shown of the store: which conversations there are, and what their tools were called with. Reading
works beside the gateway that owns the home; nothing is written here."""

import threading
from collections.abc import Collection, Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gateway.core.text.session_export import name_session
from gateway.turns.sessions import list_sessions
from hermes_base.conversation_key import ONCE, parse_key
from hermes_base.errors import HermesError
from hermes_base.store_place import find_place, has_store
from hermes_base.text.tool_views import read_object
from hermes_base.turn.journal import shown_text
from hermes_state.sql.store_sql import Store
from hermes_state.store import PagedRow, SessionInfo

PAGE = 200  # rows at a time
LOOKED_THROUGH = 60  # of the newest rows, for the call of a tool that has just begun
MOST_REPLAYED = 2_000  # rows of a long session; the older ones stay in the store


@dataclass(frozen=True, slots=True)
class ListedSession:
    """A conversation as an editor lists it."""

    id: str
    title: str
    folder: str
    updated: float


class SessionShelf:
    """Reads the store of a home, from any thread."""

    def __init__(self, home: Path) -> None:
        self._home = home
        self._one_at_a_time = threading.Lock()

    def list_newest(self, limit: int, before: float | None, folder: str) -> list[ListedSession]:
        """The newest first; `folder`: only those that work there."""
        with self._reading() as store:
            if store is None:
                return []

            def wanted(info: SessionInfo) -> bool:
                return _is_shown(info) and (not folder or _find_folder(store, info.conversation) == folder)

            return [
                ListedSession(
                    self._name(store, info),
                    name_session(info),
                    _find_folder(store, info.conversation) or str(self._home),
                    info.updated,
                )
                for info in list_sessions(store, limit, person="", before=before, wanted=wanted)
            ]

    def find(self, id: str) -> SessionInfo | None:
        """The session that an editor's name means: the current one of a conversation, or a former one by its id."""
        with self._reading() as store:
            if store is None:
                return None
            found = store.current(id) if is_key(id) else store.session(id)
            return found if found is not None and not found.person else None

    def is_known(self, conversation: str) -> bool:
        """Whether somebody has spoken in it, or is about to be answered."""
        with self._reading() as store:
            return store is not None and store.turns.latest(conversation) != (0, 0)

    def rows(self, session: str) -> list[PagedRow]:
        """The visible rows of a session, the newest of a very long one."""
        with self._reading() as store:
            found: list[PagedRow] = []
            while store is not None and len(found) < MOST_REPLAYED:
                before = found[0].row.position if found else None
                page = store.page(session, before=before, limit=PAGE)
                found = [*page, *found]
                if len(page) < PAGE:
                    break
            return found

    def find_call(self, conversation: str, call: str) -> tuple[str, Mapping[str, Any]]:
        """The task of a conversation, and what its call of this id was called with; empty: it is not there."""
        with self._reading() as store:
            info = store.current(conversation) if store is not None else None
            if store is None or info is None:
                return "", {}
            for paged in reversed(store.page(info.id, limit=LOOKED_THROUGH)):
                for made in paged.row.message.get("tool_calls") or ():
                    if made.get("id") == call:
                        return info.task, read_object(str((made.get("function") or {}).get("arguments") or "")) or {}
            return info.task, {}

    def find_results(self, conversation: str, calls: Collection[str]) -> dict[str, str]:
        """What came of these calls, as far as it is stored by now."""
        with self._reading() as store:
            info = store.current(conversation) if store is not None else None
            rows = store.page(info.id, limit=LOOKED_THROUGH) if store is not None and info is not None else []
            named = ((str(paged.row.message.get("tool_call_id") or ""), paged.row) for paged in rows)
            return {call: shown_text(row) for call, row in named if call in calls}

    def _name(self, store: Store, info: SessionInfo) -> str:
        """By its conversation as long as that goes on there: so it has the name that it was begun under."""
        current = store.current(info.conversation)
        return info.conversation if current is not None and current.id == info.id else info.id

    @contextmanager
    def _reading(self) -> Iterator[Store | None]:
        """The store for a moment: so it can be moved or put back from a back-up meanwhile. None: there is none yet."""
        with self._one_at_a_time:
            place = find_place(self._home)
            if not has_store(place):
                yield None
                return
            with closing(Store.open_readonly(place)) as store:
                yield store


def is_key(id: str) -> bool:
    try:
        return str(parse_key(id)) == id
    except HermesError:
        return False


def _is_shown(info: SessionInfo) -> bool:
    """Not what programs asked, or somebody who wanted one answer."""
    try:
        key = parse_key(info.conversation)
    except HermesError:
        return False
    return key.platform != "api" and not key.chat.startswith(ONCE)


def _find_folder(store: Store, conversation: str) -> str:
    """Where it works; empty: no terminal has spoken in it."""
    folder = store.turns.choices(conversation).get("folder")
    return folder if isinstance(folder, str) and folder.startswith("/") else ""
