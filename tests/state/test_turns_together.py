"""What is stored together: a claim with its first message, choices with a begun turn, encoded forms with their rows."""

import pytest

from hermes_base.errors import Fenced
from hermes_base.turn.journal import SYSTEM, Row, TurnEnd
from hermes_state.sql.store_sql import Store
from hermes_state.store import NewSession
from hermes_state.store_journal import StoreJournal
from hermes_state.turns import Claim, NodeInfo, Written

KEY = "agent:main:local:dm:one"


def test_a_message_brings_its_claim_along(store: Store) -> None:
    """B6: only where nobody who lives has one."""
    turns = store.turns  # type: ignore[attr-defined]
    mine, other = turns.join(NodeInfo("1")), turns.join(NodeInfo("1"))
    assert turns.accept(KEY, "local:local", "a", "{}", mine) == 1
    assert turns.claim_one(mine, KEY) == Claim(KEY, 1, mine)
    assert turns.accept(KEY, "local:local", "b", "{}", other) == 2
    assert turns.claim_one(other, KEY) is None
    assert turns.accept(KEY, "local:local", "b", "{}", other) is None


def test_choices_are_kept_with_the_turn_that_they_hold_for(store: Store) -> None:
    turns = store.turns  # type: ignore[attr-defined]
    node = turns.join(NodeInfo("1"))
    turns.accept(KEY, "local:local", "a", "{}", node)
    claim = turns.claim_one(node, KEY)
    with pytest.raises(Fenced):
        turns.begin(Claim(KEY, 9, node), [1], None, {"model": "wrong"})
    assert turns.choices(KEY) == {}
    turns.begin(claim, [1], None, {"model": "right"})
    assert turns.choices(KEY) == {"model": "right"}


def test_encoded_forms_are_kept_with_the_rows_or_not_at_all(store: Store) -> None:
    """A6, B2: a writer that is refused leaves nothing, and the bytes stand with the first row."""
    turns = store.turns  # type: ignore[attr-defined]
    node = turns.join(NodeInfo("1"))
    turns.accept(KEY, "local:local", "a", "{}", node)
    claim = turns.claim_one(node, KEY)
    turn = turns.begin(claim, [1])
    session = store.open_session(NewSession(KEY)).id
    late = Written(session, "late", 7, [Row({"role": "user", "content": "no"})], [(-1, "chat", b"wrong")])
    with pytest.raises(Fenced):
        turns.append(claim, 1, late)
    assert not store.load(session).frozen

    journal = StoreJournal(lambda: store, NewSession(KEY), owned=True)
    journal.load()
    journal.bind(claim, turn, lambda end: ())
    journal.freeze(SYSTEM, "chat", b"prompt")
    assert not store.load(session).frozen
    journal.append([Row({"role": "user", "content": "yes"}, inbox=(1,))])
    assert store.load(session).frozen == {(SYSTEM, "chat"): b"prompt"}
    journal.freeze(SYSTEM, "other", b"again")
    journal.finish([Row({"role": "assistant", "content": "done"})], (), TurnEnd("done"))
    assert set(store.load(session).frozen) == {(SYSTEM, "chat"), (SYSTEM, "other")}
    with pytest.raises(Fenced):
        journal.freeze(SYSTEM, "chat", b"too late")
