"""The house as plugins look at it: sessions, models that were chosen, and who was let in, by what is stored."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from gateway.config import load_gateway_config
from gateway.platforms.plugin_bridge.runner_face import ModelOverrides
from gateway.session import SessionStore, StoredSession
from gateway.turns.agent_builder import Choices
from gateway.turns.endings import NEW, Endings
from gateway.turns.run_turn import GatewayParts
from gateway.turns.sender import Senders
from hermes_base.inbound import Address
from hermes_base.text.foreign import OTHERS
from hermes_state.sql.store_sql import Store
from hermes_state.store import NewSession, SessionInfo

MOST_SESSIONS = 500
NOTE_CHARS = 2_000
SAID_BEFORE = "[said in this chat before, and not answered: {text}]"


def open_house(parts: GatewayParts, senders: Senders) -> None:
    """From now on plugins find the runner of this gateway."""
    shelf = StoreShelf(parts.store, parts.endings, parts.profile)
    store = SessionStore(shelf, load_gateway_config, parts.store)
    overrides = ModelOverrides(shelf.read_choice, shelf.write_choice)
    parts.runner.open_to_plugins(store, overrides, lambda platform, sender: senders.knows(platform, sender, ""))


@dataclass(frozen=True, slots=True)
class StoreShelf:
    """`KnownSessions` over the store."""

    _store: Store
    _endings: Endings
    _profile: str

    def find(self, key: str) -> StoredSession | None:
        return self._describe(self._store.current(key))

    def find_by_id(self, session: str) -> StoredSession | None:
        return self._describe(self._store.session(session))

    def every(self) -> Sequence[StoredSession]:
        found = (self._describe(info) for info in self._store.sessions(limit=MOST_SESSIONS) if info.ended is None)
        return [stored for stored in found if stored is not None]

    def open(self, address: Address) -> StoredSession:
        key = address.conversation(self._profile)
        made = self._describe(self._store.open_session(NewSession(key, platform=address.platform)))
        assert made is not None  # it was just made
        return replace(made, address=address)

    def begin_anew(self, key: str) -> None:
        info = self._store.current(key)
        if info is not None:
            self._endings.end_session(info, NEW)
            self._store.end(info.id, NEW)

    def read(self, session: str) -> list[dict[str, Any]]:
        return [dict(row.message) for row in self._store.load(session).rows]

    def tell(self, session: str, message: Mapping[str, Any]) -> None:
        """The model hears of it with the next message there; whose words they are nobody can tell, so they are somebody
        else's (G9)."""
        info, text = self._store.session(session), str(message.get("content") or "").strip()
        if info is not None and text:
            note = SAID_BEFORE.format(text=text[:NOTE_CHARS])
            self._store.habits.add_note(info.conversation, note, OTHERS)

    def _describe(self, info: SessionInfo | None) -> StoredSession | None:
        if info is None:
            return None
        given = Choices.of(self._store.turns.choices(info.conversation)).address
        address = Address(**given) if given else None
        return StoredSession(info.conversation, info.id, info.started, info.updated, info.title, address)

    def read_choice(self, key: str) -> dict[str, Any]:
        chosen = Choices.of(self._store.turns.choices(key))
        return {"model": chosen.model, "provider": chosen.provider} if chosen.model or chosen.provider else {}

    def write_choice(self, key: str, chosen: Mapping[str, Any]) -> None:
        turns = self._store.turns
        model, provider = str(chosen.get("model") or ""), str(chosen.get("provider") or "")
        turns.choose(key, replace(Choices.of(turns.choices(key)), model=model, provider=provider).as_stored())
