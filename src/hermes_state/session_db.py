"""`SessionDB`: the store as plugins know it, one object for each use, from any thread or process.

Everything goes through the store's own calls: what is written has a version, and a session that is being answered in
is not written to from here.
"""

import json
from pathlib import Path
from typing import Any

from hermes_base.errors import Fenced, HermesError
from hermes_base.store_place import find_place
from hermes_base.turn.journal import Row, text_of
from hermes_constants import STORE_FILE, get_hermes_home
from hermes_state.records import make_session_id
from hermes_state.sql.store_sql import Store
from hermes_state.store import NewSession, PagedRow, SessionInfo

_WRITER = "session-db"
_ALL = 5_000
_ALL_ROWS = 100_000
_TRIES = 5


def find_default_path() -> Path:
    return get_hermes_home() / STORE_FILE


class SessionDB:
    """Sessions and messages as dicts; `read_only` never writes."""

    def __init__(self, db_path: Path | str | None = None, read_only: bool = False) -> None:
        path = find_default_path() if db_path is None else Path(db_path)
        self.db_path, self.read_only = path, read_only
        # Who names the home's own store means it, wherever it is (I6).
        place = find_place(get_hermes_home()) if path == find_default_path() else path
        self._store = Store.open_readonly(place) if read_only else Store(place)

    def close(self) -> None:
        self._store.close()

    def __enter__(self) -> "SessionDB":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # --- sessions

    def create_session(self, session_id: str, source: str, **facts: Any) -> str:
        new = NewSession(
            f"agent:main:{source or 'unknown'}:dm:{session_id}",
            id=session_id or make_session_id(),
            parent=facts.get("parent_session_id"),
            platform=source or "unknown",
            model=str(facts.get("model") or ""),
            title=str(facts.get("title") or ""),
        )
        return self._store.open_session(new).id

    def ensure_session(self, session_id: str, source: str = "unknown", model: str | None = None, **facts: Any) -> str:
        if self._store.session(session_id) is None:
            self.create_session(session_id, source, model=model, **facts)
        return session_id

    def get_session(self, session_id: str) -> dict[str, Any] | None:
        info = self._store.session(session_id)
        return None if info is None else {**_describe(info), **self._count(session_id)}

    def _count(self, session_id: str) -> dict[str, int]:
        """Its tokens from the ledger, and the calls of tools that its messages hold."""
        used = self._store.usage(session=session_id)
        rows = self._store.page(session_id, limit=_ALL_ROWS, standing=True)
        calls = sum(len(page.row.message.get("tool_calls") or ()) for page in rows)
        return {"tool_call_count": calls} | {
            name: getattr(used, name)
            for name in (
                *("input_tokens", "output_tokens", "cache_read_tokens", "cache_write_tokens"),
                "reasoning_tokens",
            )
        }

    def resolve_session_id(self, wanted: str) -> str | None:
        """The whole id for an id or its beginning; None when there is none, or more than one."""
        if self._store.session(wanted) is not None:
            return wanted
        near = [info.id for info in self._store.sessions(limit=_ALL) if info.id.startswith(wanted)]
        return near[0] if len(near) == 1 else None

    def list_sessions_rich(
        self,
        source: str | None = None,
        exclude_sources: Any = None,
        cwd_prefix: str | None = None,
        limit: int = 20,
        offset: int = 0,
        include_children: bool = False,
        min_message_count: int = 0,
        **others: Any,
    ) -> list[dict[str, Any]]:
        """Newest first, each with `preview` and `last_active`; those that continue another one, too. No session has a
        folder here, so none is in `cwd_prefix`."""
        del include_children, others
        if cwd_prefix:
            return []
        least, left_out = min_message_count or 0, set(exclude_sources or ())
        found = [
            _describe(info)
            for info in self._store.sessions(limit=_ALL)
            if source in (None, info.platform) and info.platform not in left_out and info.messages >= least
        ]
        return found[offset : offset + limit]

    def session_count(self, source: str | None = None, **options: Any) -> int:
        return len(self.list_sessions_rich(source, limit=_ALL, **options))

    def get_session_title(self, session_id: str) -> str | None:
        info = self._store.session(session_id)
        return None if info is None else info.title or None

    def set_session_title(self, session_id: str, title: str) -> bool:
        """Whether there is such a session; ValueError when another one has the title."""
        if any(info.title == title and info.id != session_id for info in self._store.sessions(limit=_ALL)):
            raise ValueError(f"Another session is called {title!r}.")
        if self._store.session(session_id) is None:
            return False
        self._store.set_title(session_id, title)
        return True

    def delete_session(self, session_id: str, sessions_dir: Any = None) -> bool:
        del sessions_dir  # nothing of a session stands in files
        return self._store.delete(session_id)

    # --- messages

    def get_messages(
        self, session_id: str, include_inactive: bool = False, limit: int | None = None, offset: int = 0
    ) -> list[dict[str, Any]]:
        """What the model sees of a session; with `include_inactive` also what was compacted."""
        if self._store.session(session_id) is None:
            return []
        live = self._store.page(session_id, limit=_ALL_ROWS, standing=True)
        rows = {page.row.position: (page, True) for page in live}
        if include_inactive:
            rows = {page.row.position: (page, False) for page in self._store.page(session_id, limit=_ALL_ROWS)} | rows
        found = [_describe_row(session_id, *rows[position]) for position in sorted(rows)]
        _name_tools(found)
        return found[offset:] if limit is None else found[offset : offset + limit]

    def append_message(
        self,
        session_id: str,
        role: str,
        content: Any = None,
        tool_name: str | None = None,
        tool_calls: Any = None,
        tool_call_id: str | None = None,
        token_count: int | None = None,
        finish_reason: str | None = None,
        **others: Any,
    ) -> int:
        """Add a message to a session that nobody is answering in; its place there. Counts and reasons are not stored
        with messages here."""
        del tool_name, token_count, finish_reason, others
        message: dict[str, Any] = {"role": role, "content": content if content is not None else ""}
        calls = {"tool_calls": tool_calls, "tool_call_id": tool_call_id}
        message |= {name: value for name, value in calls.items() if value}
        seen, tries = -1, 0
        while tries < _TRIES:
            info = self._store.session(session_id)
            if info is None:
                raise HermesError(f"There is no session {session_id}.")
            try:
                return self._store.append(session_id, _WRITER, info.version, [Row(message)]) - 1
            except Fenced:  # somebody wrote meanwhile: after that; who does not get on is not waited for
                tries = 0 if info.version != seen else tries + 1
                seen = info.version
        raise HermesError(f"The session {session_id} is being written to.", kept="Nothing was added.")


def _describe(info: SessionInfo) -> dict[str, Any]:
    return {
        "id": info.id,
        "source": "cli" if info.platform == "local" else info.platform,
        "user_id": info.person or None,
        "session_key": info.conversation,
        "chat_id": None,
        "model": info.model,
        "parent_session_id": info.parent,
        "started_at": info.started,
        "ended_at": info.ended,
        "end_reason": info.end_reason,
        "message_count": info.messages,
        "tool_call_count": 0,  # in a list; the calls of one session are counted when it is asked for
        "cwd": None,
        "title": info.title or None,
        "preview": info.preview,
        "last_active": info.updated,
    }


def _describe_row(session: str, paged: PagedRow, active: bool) -> dict[str, Any]:
    row, message = paged.row, paged.row.message
    calls = message.get("tool_calls")
    return {
        "id": row.position,
        "session_id": session,
        "role": message.get("role"),
        "content": message.get("content") if isinstance(message.get("content"), str) else text_of(message),
        "tool_call_id": message.get("tool_call_id"),
        "tool_calls": json.loads(json.dumps(calls, default=str)) if calls else None,
        "tool_name": None,
        "timestamp": paged.created,
        "token_count": None,
        "finish_reason": None,
        "active": int(active),
        "compacted": int(not active),
    }


def _name_tools(messages: list[dict[str, Any]]) -> None:
    """Results say which tool they are of: it stands with the call."""
    names: dict[str, str] = {}
    for message in messages:
        for call in message["tool_calls"] or ():
            names[str(call.get("id"))] = str((call.get("function") or {}).get("name") or "")
        if message["role"] == "tool":
            message["tool_name"] = names.get(str(message["tool_call_id"])) or None
