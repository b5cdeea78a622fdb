"""`hermes people` on a home without a running gateway: the real store, the real lock."""

import json
import sys
from contextlib import closing

import pytest

from hermes_base.errors import HermesError
from hermes_base.store_place import find_place
from hermes_base.turn.journal import Row, UsageRow
from hermes_cli import main as entry
from hermes_cli.cmds import people_cmd
from hermes_constants import get_hermes_home
from hermes_state.home_lock import HomeLock
from hermes_state.people_store import MEMBER, Person
from hermes_state.sql.store_sql import Store
from hermes_state.store import NewSession

Output = pytest.CaptureFixture[str]


@pytest.fixture
def code() -> str:
    """The code of a stranger whose name tries to steer the terminal."""
    with closing(Store(find_place(get_hermes_home()))) as store:
        pairing = store.people.pair("chat", "77", "Bob\x1b[2J\x07\u202e\u2066", "c77")
        assert pairing is not None
        return pairing.code


@pytest.fixture
def ann() -> Person:
    with closing(Store(find_place(get_hermes_home()))) as store:
        person = store.people.add("Ann", MEMBER, "chat", "1")
        session = store.open_session(NewSession("c", person=person.id))
        store.append(session.id, "w", 0, [Row({"role": "user", "content": "hello"})], [UsageRow("p", "m")])
    return person


def run(output: Output, *args: str) -> str:
    assert people_cmd.main(list(args)) == 0
    return output.readouterr().out


def test_an_empty_home_says_that_it_is_closed(capsys: Output) -> None:
    """G1: closed by default."""
    assert "Nobody but the owner" in run(capsys, "list")
    assert json.loads(run(capsys, "list", "--json")) == {"people": [], "pairings": []}


def test_who_was_taken_out_of_the_settings_is_shown_as_out(capsys: Output) -> None:
    """What the settings say today counts, not what they said when somebody came."""
    with closing(Store(find_place(get_hermes_home()))) as store:
        ann = store.people.add("Ann", MEMBER, "chat", "1", listed=True)
    assert f"{ann.id}  out     Ann  (chat 1, not in the settings any more)" in run(capsys, "list")


def test_a_stranger_is_seen_and_let_in(capsys: Output, code: str) -> None:
    """G1: the code from the chat is what a local operator approves; names cannot steer the terminal."""
    listed = run(capsys, "list")
    assert f"hermes people approve {code}" in listed
    assert "chat 77" in listed
    assert not {"\x1b", "\u202e", "\u2066"} & set(listed)
    assert "Robert" in run(capsys, "approve", code.lower(), "--role", "admin", "--name", "Robert")
    told = json.loads(run(capsys, "list", "--json"))
    assert [(one["name"], one["role"]) for one in told["people"]] == [("Robert", "admin")]
    assert told["pairings"] == []
    with pytest.raises(HermesError, match="no open request"):
        people_cmd.main(["approve", code])


def test_roles_and_identities_are_changed(capsys: Output, ann: Person) -> None:
    assert "admin now" in run(capsys, "role", ann.id, "admin")
    assert "known there" in run(capsys, "link", ann.id, "mail", "ann@x")
    assert "chat 1, mail ann@x" in run(capsys, "list")
    assert json.loads(run(capsys, "role", ann.id, "member", "--json"))["person"]["role"] == "member"


def test_a_removed_person_is_gone_and_their_data_stays(capsys: Output, ann: Person) -> None:
    """G3."""
    assert f"hermes people forget {ann.id}" in run(capsys, "remove", ann.id)
    assert "Ann" not in run(capsys, "list")
    with closing(Store.open_readonly(find_place(get_hermes_home()))) as store:
        assert len(store.sessions(person=ann.id)) == 1


def test_forgetting_deletes_and_says_what(capsys: Output, ann: Person) -> None:
    """G12."""
    note = get_hermes_home() / "people" / ann.id / "workspace" / "note"
    note.parent.mkdir(parents=True)
    note.write_text("x")
    said = run(capsys, "forget", ann.id, "--yes")
    assert "sessions 1" in said
    assert "files 1" in said
    assert "1 model calls stay counted" in said
    assert not note.parents[1].exists()
    with closing(Store.open_readonly(find_place(get_hermes_home()))) as store:
        assert store.sessions() == []
        assert store.usage().calls == 1


def test_forgetting_asks_first(capsys: Output, ann: Person, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(HermesError, match="--yes"):
        people_cmd.main(["forget", ann.id])
    monkeypatch.setattr(sys.stdin, "isatty", lambda: True)
    monkeypatch.setattr("builtins.input", lambda question: "n" if ann.id in question else "y")
    assert people_cmd.main(["forget", ann.id]) == 1
    assert "Nothing was deleted." in capsys.readouterr().out
    assert "Ann" in run(capsys, "list")


@pytest.mark.parametrize("args", [["role", "p-none", "member"], ["remove", "p-none"], ["forget", "p-none", "--yes"]])
def test_an_unknown_id_is_a_sentence(args: list[str], capsys: Output) -> None:
    assert entry.main(["people", *args]) == 1
    said = capsys.readouterr().err
    assert "nobody with the id" in said
    assert "hermes people list" in said


def test_a_wrong_role_is_refused(capsys: Output) -> None:
    assert entry.main(["people", "role", "p-1", "king"]) == 2
    assert "owner" in capsys.readouterr().err


def test_the_home_is_not_changed_behind_its_owners_back(ann: Person, monkeypatch: pytest.MonkeyPatch) -> None:
    """B6: while another process owns the home and does not answer, nothing is written."""
    monkeypatch.setattr("hermes_cli.cmds.owner._PATIENCE_SECONDS", 0.0)
    with HomeLock(get_hermes_home()), pytest.raises(HermesError):
        people_cmd.main(["remove", ann.id])
    with closing(Store.open_readonly(find_place(get_hermes_home()))) as store:
        assert store.people.people() == [ann]


def test_where_and_when_somebody_is_told_things(capsys: Output, ann: Person) -> None:
    """Shown and set for a person, and for the owner, who need not be anybody in an app."""
    assert "no home channel, no time zone, no quiet hours" in run(capsys, "home", ann.id)
    run(capsys, "timezone", ann.id, "europe/berlin")
    assert run(capsys, "quiet", ann.id, "22:00-7:00") == f"{ann.id}: time zone Europe/Berlin; quiet 22:00-07:00\n"
    assert "time zone Europe/Berlin; quiet 22:00-07:00" in run(capsys, "list")
    run(capsys, "quiet", "owner", "23:00-06:00")
    assert "owner  on this machine: quiet 23:00-06:00" in run(capsys, "list")
    run(capsys, "quiet", "owner", "off")
    for wrong in (
        ["home", ann.id, "local", "x"],
        ["home", ann.id, "nowhere", "x"],
        ["quiet", ann.id, "nights"],
        ["timezone", ann.id, "Nowhere"],
        ["quiet", "p-nobody", "off"],
    ):
        with pytest.raises(HermesError):
            people_cmd.main(wrong)
    assert run(capsys, "quiet", ann.id) == f"{ann.id}: time zone Europe/Berlin; quiet 22:00-07:00\n"


def test_an_identity_is_added_and_taken_back(capsys: Output, ann: Person) -> None:
    run(capsys, "link", ann.id, "other", "4711")
    assert "other 4711" in run(capsys, "list")
    assert "not known there any more" in run(capsys, "unlink", ann.id, "other", "4711")
    assert "4711" not in run(capsys, "list")
    with pytest.raises(HermesError, match="is not"):
        people_cmd.main(["unlink", ann.id, "other", "4711"])
