"""Who a sender is, and what an operator does with people."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from fresh_store import fresh_store
from hypothesis import given, settings
from hypothesis import strategies as st

from gateway.core.people import Scope, scope_of
from gateway.service.admin.people_admin import OPERATIONS
from gateway.turns.sender import LOCAL_OWNER, STRANGER, admit, open_folder, standing
from hermes_base.errors import HermesError
from hermes_base.settings import Settings
from hermes_base.turn.journal import Row
from hermes_state.people_store import ADMIN, MEMBER, OWNER
from hermes_state.sql.store_sql import Store
from hermes_state.store import NewSession

CLOSED = Settings()
LISTED = Settings(platforms={"chat": {"owner": "1", "allow": ["2"]}, "mail": {"owner": "me@x"}})


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    made = Store(tmp_path / "store.db")
    yield made
    made.close()


def perform(store: Store, home: Path, name: str, /, **args: object) -> dict[str, Any]:
    """The operation as it goes over a socket."""
    told = OPERATIONS[name](store, home, json.loads(json.dumps(args)))
    return dict(json.loads(json.dumps(told)))


# --- who a sender is


def test_with_nobody_set_everybody_is_a_stranger(store: Store) -> None:
    """G1: first contact gets a code, the same one later, and no standing."""
    assert admit(store.people, CLOSED, "chat", "1", "owner") == STRANGER
    first = store.people.pair("chat", "1", "owner", "c")
    again = store.people.pair("chat", "1", "owner", "c")
    assert [first.code, again.code] == [store.people.pairings()[0].code] * 2  # type: ignore[union-attr]
    assert admit(store.people, CLOSED, "chat", "1", "owner") == STRANGER
    assert store.people.people() == []


def test_whom_the_settings_list_is_a_person_at_first_contact(store: Store) -> None:
    """G1, G2: one owner over all platforms; a member without a code; nobody by name."""
    owner = admit(store.people, LISTED, "chat", "1", "Me")
    assert owner.role == OWNER
    assert admit(store.people, LISTED, "mail", "me@x", "Me too") == owner
    member = admit(store.people, LISTED, "chat", "2", "Ann")
    assert (member.role, member.person != owner.person) == (MEMBER, True)
    assert admit(store.people, LISTED, "chat", "2", "Another name") == member
    assert admit(store.people, LISTED, "chat", "3", "Me") == STRANGER
    assert admit(store.people, LISTED, "mail", "2", "Ann") == STRANGER
    assert len(store.people.people()) == 2


def test_who_is_taken_off_the_list_is_a_stranger(store: Store) -> None:
    """G3: an identity from the settings holds as long as it stands there; an approved one stays."""
    admit(store.people, LISTED, "chat", "2", "Ann")
    assert admit(store.people, CLOSED, "chat", "2", "Ann") == STRANGER
    assert admit(store.people, LISTED, "chat", "2", "Ann").role == MEMBER
    pairing = store.people.pair("chat", "5", "Bob", "c")
    assert pairing is not None
    store.people.approve(pairing.code)
    assert admit(store.people, CLOSED, "chat", "5").role == MEMBER


def test_the_settings_do_not_bring_back_who_was_removed(store: Store, tmp_path: Path) -> None:
    """G3."""
    person = admit(store.people, LISTED, "chat", "2", "Ann").person
    assert perform(store, tmp_path, "remove", id=person)["removed"] == person
    assert admit(store.people, LISTED, "chat", "2", "Ann") == STRANGER
    assert store.people.pair("chat", "2", "Ann", "c") is not None


def test_the_settings_make_a_known_member_the_owner(store: Store) -> None:
    pairing = store.people.pair("chat", "1", "Me", "c")
    assert pairing is not None
    person = store.people.approve(pairing.code)
    assert admit(store.people, LISTED, "chat", "1").role == OWNER
    assert standing(store.people.get(person.id)).role == OWNER
    store.people.add("Ann", MEMBER, "chat", "9")
    assert admit(store.people, Settings(platforms={"chat": {"owner": ["1", "9"]}}), "chat", "9").role == MEMBER
    assert admit(store.people, Settings(platforms={"chat": {"owner": "9"}}), "chat", "9").role == OWNER
    assert standing(store.people.get(person.id)).role == MEMBER


SENDERS = ("1", "2", "3")
ACTS = st.tuples(
    st.sampled_from(["say", "approve", "remove", "list", "unlist", "forget"]), st.sampled_from(SENDERS), st.booleans()
)


@given(acts=st.lists(ACTS, max_size=25))
@settings(deadline=None, max_examples=25)
def test_no_sequence_lets_a_stranger_talk(acts: list[tuple[str, str, bool]]) -> None:
    """G1, G2, G3: who may talk was approved or is listed, and was not removed since; names never help."""
    play(acts)


@pytest.mark.soak
@given(acts=st.lists(ACTS, max_size=50))
@settings(deadline=None, max_examples=500)
def test_none_of_many_sequences_lets_a_stranger_talk(acts: list[tuple[str, str, bool]]) -> None:
    """G1, G2, G3: the same, more often and for longer."""
    play(acts)


def play(acts: list[tuple[str, str, bool]]) -> None:
    """Do these things one after the other, and ask after each who may talk."""
    store, home = fresh_store(), Path("/nonexistent")
    listed: set[str] = set()
    approved: set[str] = set()
    barred: set[str] = set()
    for act, sender, owner in acts:
        config = Settings(platforms={"chat": {"allow": sorted(listed)}})
        if act == "say":
            store.people.pair("chat", sender, "owner", "c")
        elif act == "approve":
            codes = [pairing.code for pairing in store.people.pairings() if pairing.sender == sender]
            if codes:
                store.people.approve(codes[0], ADMIN if owner else MEMBER)
                approved.add(sender)
                barred.discard(sender)
        elif act in ("list", "unlist"):
            (listed.add if act == "list" else listed.discard)(sender)
            config = Settings(platforms={"chat": {"allow": sorted(listed)}})
        else:
            person = store.people.find("chat", sender)
            if person is not None:
                OPERATIONS[act](store, home, {"id": person.id})
                approved.discard(sender)
                barred.add(sender)
        for one in SENDERS:
            expected = one in approved or (one in listed and one not in barred)
            assert bool(admit(store.people, config, "chat", one, "owner").role) == expected
        assert admit(store.people, config, "chat", "owner", "owner") == STRANGER


# --- what an operator does


def test_people_are_listed_with_identities_and_requests(store: Store, tmp_path: Path) -> None:
    assert perform(store, tmp_path, "list") == {"people": [], "pairings": []}
    admit(store.people, LISTED, "chat", "2", "Ann")
    store.people.pair("chat", "3", "Bob", "c3")
    told = perform(store, tmp_path, "list")
    [identity] = told["people"][0]["identities"]
    assert identity == {
        "platform": "chat",
        "sender": "2",
        "listed": True,
        "lets_in": False,
    }  # the settings here are bare
    assert (told["pairings"][0]["sender"], told["pairings"][0]["chat"]) == ("3", "c3")


def test_a_stranger_is_approved_with_a_role(store: Store, tmp_path: Path) -> None:
    """G1: the answer says where they wrote, so that they can be told."""
    pairing = store.people.pair("chat", "3", "Bob", "c3")
    assert pairing is not None
    told = perform(store, tmp_path, "approve", code=pairing.code.lower(), role="admin", name="Robert")
    assert (told["person"]["name"], told["person"]["role"]) == ("Robert", "admin")
    assert (told["platform"], told["sender"], told["chat"]) == ("chat", "3", "c3")
    assert perform(store, tmp_path, "role", id=told["person"]["id"], role="member")["person"]["role"] == "member"
    perform(store, tmp_path, "link", id=told["person"]["id"], platform="mail", sender="b@x")
    assert admit(store.people, CLOSED, "mail", "b@x").person == told["person"]["id"]


@pytest.mark.parametrize(
    ("name", "args"),
    [
        ("approve", {}),
        ("approve", {"code": 5}),
        ("approve", {"code": "AAAAAAAA"}),
        ("approve", {"code": "AAAAAAAA", "role": "king"}),
        ("remove", {"id": "p-none"}),
        ("remove", {}),
        ("role", {"id": "p-none", "role": "member"}),
        ("role", {"id": "p-none"}),
        ("link", {"id": "p-none", "platform": "chat", "sender": "1"}),
        ("link", {"id": "p-none", "platform": "chat"}),
        ("forget", {"id": "p-none"}),
        ("forget", {"id": ""}),
        ("forget", {"id": "../.."}),
        ("forget", {"id": "."}),
        ("forget", {"id": ["p-1"]}),
    ],
)
def test_bad_input_is_a_sentence_and_changes_nothing(
    store: Store, tmp_path: Path, name: str, args: dict[str, Any]
) -> None:
    (tmp_path / "people").mkdir()
    (tmp_path / "keep").write_text("x")
    with pytest.raises(HermesError):
        perform(store, tmp_path, name, **args)
    assert store.people.people() == []
    assert (tmp_path / "keep").exists()


def test_forgetting_deletes_rows_and_folder(store: Store, tmp_path: Path) -> None:
    """G12: the folder goes, links in it are not followed, the neighbours' folders stay; also after a removal."""
    person = store.people.add("Ann", MEMBER, "chat", "2")
    own = open_folder(tmp_path, scope_of("dm", MEMBER, person.id, "c", shared=True))
    other = open_folder(tmp_path, scope_of("dm", MEMBER, "p-other", "c", shared=True))
    assert own is not None
    assert other is not None
    (own / "workspace" / "note").write_text("mine")
    (other / "workspace" / "note").write_text("theirs")
    (own / "workspace" / "link").symlink_to(other)
    session = store.open_session(NewSession("c", person=person.id))
    store.append(session.id, "w", 0, [Row({"role": "user", "content": "hello"})])
    perform(store, tmp_path, "remove", id=person.id)
    assert (own / "workspace" / "note").exists()
    told = perform(store, tmp_path, "forget", id=person.id)
    assert told["removed"] == person.id
    assert (told["deleted"]["sessions"], told["deleted"]["files"]) == (1, 2)
    assert not own.exists()
    assert (other / "workspace" / "note").read_text() == "theirs"
    assert store.sessions() == []
    with pytest.raises(HermesError, match="nobody"):
        perform(store, tmp_path, "forget", id=person.id)


def test_the_owner_is_not_forgotten(store: Store, tmp_path: Path) -> None:
    owner = store.people.add("Me", OWNER, "chat", "1")
    with pytest.raises(HermesError, match="owner"):
        perform(store, tmp_path, "forget", id=owner.id)
    assert store.people.people() == [owner]


def test_a_folder_is_made_for_everybody_but_the_owner(tmp_path: Path) -> None:
    assert open_folder(tmp_path, Scope()) is None
    own = open_folder(tmp_path, Scope("p-1", "people/p-1"))
    assert own == tmp_path / "people" / "p-1"
    assert (own / "workspace").is_dir()
    assert all(folder.stat().st_mode & 0o777 == 0o700 for folder in (own, own.parent, own / "workspace"))
    assert open_folder(tmp_path, Scope("p-1", "people/p-1")) == own


def test_the_socket_is_the_owner() -> None:
    assert (LOCAL_OWNER.role, bool(LOCAL_OWNER.person)) == (OWNER, True)


def test_a_name_turns_no_line(store: Store, tmp_path: Path) -> None:
    """G2: marks that turn the direction of writing would let a stranger's name pass for other words in a list."""
    store.people.add("Ann\u202e\u2066\n", MEMBER, "chat", "1")
    store.people.pair("chat", "2", "\u200fBob\u202d", "c2")
    told = perform(store, tmp_path, "list")
    assert [one["name"].strip() for one in (*told["people"], *told["pairings"])] == ["Ann", "Bob"]
