"""Finds sessions, for commands in the chat and in the terminal."""

from collections.abc import Callable

from hermes_base.errors import HermesError
from hermes_state.sql.store_sql import Store
from hermes_state.store import SessionInfo

_ALL = 1_000_000
READ_AT_ONCE = 500
#: Ends of sessions that go on as their child, which is listed in their place.
ROTATED = frozenset({"compression", "history_replaced"})


def list_sessions(
    store: Store,
    limit: int,
    *,
    conversation: str | None = None,
    person: str | None = None,
    before: float | None = None,
    wanted: Callable[[SessionInfo], bool] = lambda info: True,
) -> list[SessionInfo]:
    """The newest first, each conversation once however often it was compacted; so the store may be asked for more."""
    listed: list[SessionInfo] = []
    step = limit
    while len(listed) < limit:
        found = store.sessions(limit=step, conversation=conversation, person=person, before=before)
        listed += [info for info in found if info.end_reason not in ROTATED and wanted(info)]
        if len(found) < step:
            break
        step = READ_AT_ONCE  # many are left out, it seems
        before = found[-1].updated
    return listed[:limit]


def find_session(
    store: Store, wanted: str, *, conversation: str | None = None, person: str | None = None
) -> SessionInfo:
    """The session with this id, or the only one whose id begins so, among those that may be seen."""
    exact = store.session(wanted)
    if exact is not None and conversation in (None, exact.conversation) and person in (None, exact.person):
        return exact
    seen = store.sessions(limit=_ALL, conversation=conversation, person=person)
    near = [info for info in seen if info.id.startswith(wanted)]
    if len(near) == 1:
        return near[0]
    fix = "`hermes sessions list` and /resume show the ids."
    if not near:
        raise HermesError(f"There is no session {wanted!r}.", fix=fix)
    few = ", ".join(info.id for info in near[:5]) + (", …" if len(near) > 5 else "")
    raise HermesError(f"{len(near)} sessions begin with {wanted!r}: {few}.", fix="Type more of the id.")
