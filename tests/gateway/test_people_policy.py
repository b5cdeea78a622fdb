"""Who may do what: the tables of roles, questions, groups and scopes."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.core.people import (
    ROLES,
    GroupRules,
    Scope,
    group_rules,
    listed_role,
    may_answer,
    may_run,
    may_stop,
    may_talk,
    program_role,
    scope_of,
)
from hermes_base.command_table import COMMANDS, Command, find_command
from hermes_base.setting_table import make_settings
from hermes_base.settings import PeopleSettings, Settings
from hermes_state.people_store import ROLE_NAMES

STRANGERS = ["", "king", "Owner", "OWNER ", "members"]


def get_command(name: str) -> Command:
    found = find_command(name)
    assert found is not None
    return found


def test_the_store_and_the_policy_know_the_same_roles() -> None:
    assert set(ROLES) == set(ROLE_NAMES)
    assert sorted(ROLES, key=lambda name: -ROLES[name].rank) == list(ROLE_NAMES)
    for command in COMMANDS:
        assert command.role in ROLES
        assert all(role in ROLES for _, role in command.option_roles)


@pytest.mark.parametrize("role", STRANGERS)
def test_an_unknown_role_may_nothing(role: str) -> None:
    """G1: closed by default."""
    assert not may_talk(role)
    assert not may_stop(role, "p", "p")
    assert not any(may_run(role, command) for command in COMMANDS)
    for kind in ("approval", "clarification", "confirmation", ""):
        assert not may_answer(kind, role, "p", "p", members_approve=True)


@pytest.mark.parametrize(
    ("role", "command", "args", "allowed"),
    [
        ("member", "model", "", True),
        ("member", "model", "gpt-5", True),
        ("member", "model", "gpt-5 --global", False),
        ("member", "model", "--global gpt-5", False),
        ("member", "model", "my--global", True),
        ("admin", "model", "gpt-5 --global", True),
        ("owner", "model", "gpt-5 --global", True),
        ("member", "stop", "", True),
        ("member", "new", "", True),
    ],
)
def test_commands_need_a_role(role: str, command: str, args: str, allowed: bool) -> None:
    """G1: roles for slash commands."""
    assert may_run(role, get_command(command), args) == allowed


def test_a_command_of_an_unknown_role_is_nobodys() -> None:
    assert not may_run("owner", Command("odd", (), "", role="emperor"))


@pytest.mark.parametrize(
    ("role", "person", "starter", "allowed"),
    [
        ("member", "p-1", "p-1", True),
        ("member", "p-1", "p-2", False),
        ("member", "p-1", "", False),
        ("member", "", "", False),
        ("admin", "p-1", "p-2", True),
        ("admin", "p-1", "", True),
        ("owner", "owner", "p-2", True),
        ("", "p-1", "p-1", False),
    ],
)
def test_a_turn_is_stopped_by_its_starter_or_an_admin(role: str, person: str, starter: str, allowed: bool) -> None:
    """C16."""
    assert may_stop(role, person, starter) == allowed


@pytest.mark.parametrize(
    ("kind", "role", "person", "members", "allowed"),
    [
        ("approval", "owner", "owner", False, True),
        ("approval", "admin", "p-9", False, True),
        ("approval", "member", "p-1", False, False),
        ("approval", "member", "p-1", True, True),
        ("approval", "member", "p-2", True, False),
        ("approval", "member", "", True, False),
        ("clarification", "member", "p-1", False, True),
        ("clarification", "member", "p-2", True, False),
        ("clarification", "admin", "p-9", True, False),
        ("clarification", "owner", "owner", False, False),
        ("confirmation", "member", "p-1", False, True),
        ("confirmation", "member", "p-2", False, False),
        ("confirmation", "admin", "p-9", True, False),
        ("confirmation", "owner", "owner", False, False),
        ("something new", "member", "p-1", True, False),
        ("something new", "owner", "owner", False, True),
    ],
)
def test_a_question_is_answered_by_who_may(kind: str, role: str, person: str, members: bool, allowed: bool) -> None:
    """G4: p-1 is whose turn asks."""
    assert may_answer(kind, role, person, "p-1", members) == allowed


@pytest.mark.parametrize("kind", ["clarification", "confirmation", "approval"])
def test_the_owner_answers_their_own_questions_wherever_they_are(kind: str) -> None:
    """G4: at the terminal and in an app the owner is one person; nobody else is."""
    assert may_answer(kind, "owner", "owner", "p-1", members_approve=False, asked_role="owner")
    assert not may_answer(kind, "member", "p-2", "p-1", members_approve=True, asked_role="owner")
    assert not may_answer(kind, "member", "p-2", "p-1", members_approve=True, asked_role="member")


def test_nobody_answers_the_question_of_nobody() -> None:
    """G4: an empty id equals no other empty id."""
    assert not may_answer("clarification", "member", "", "", members_approve=True)


PLATFORMS = Settings(
    platforms={
        "chat": {"owner": 42, "allow": ["7", 8], "groups": {-100: {"open": True, "mention": False}, "-200": None}},
        "list": {"groups": ["1", 2], "allow": "9"},
        "none": {"groups": []},
        "bare": None,
        "odd": {"owner": True, "allow": {"x": 1}, "groups": "5"},
    }
)


@pytest.mark.parametrize(
    ("platform", "sender", "role"),
    [
        ("chat", "42", "owner"),
        ("chat", "7", "member"),
        ("chat", "8", "member"),
        ("chat", "9", ""),
        ("chat", "", ""),
        ("chat", "4", ""),
        ("list", "9", "member"),
        ("other", "42", ""),
        ("bare", "42", ""),
        ("odd", "True", ""),
        ("odd", "x", ""),
    ],
)
def test_the_settings_list_identities(platform: str, sender: str, role: str) -> None:
    """G1, G2: by id on that platform, whether it is written as a number or as text."""
    assert listed_role(PLATFORMS, platform, sender) == role


@pytest.mark.parametrize(
    ("platform", "chat", "rules"),
    [
        ("chat", "-100", GroupRules(True, True, False)),
        ("chat", "-200", GroupRules(True, False, None)),
        ("chat", "-300", GroupRules(False, False, None)),
        ("list", "1", GroupRules(True)),
        ("list", "2", GroupRules(True)),
        ("list", "3", GroupRules(False)),
        ("none", "1", GroupRules(False)),
        ("bare", "1", GroupRules(True)),
        ("other", "1", GroupRules(True)),
        ("odd", "5", GroupRules(True)),
    ],
)
def test_groups_have_rules(platform: str, chat: str, rules: GroupRules) -> None:
    """G1: a platform with a list of groups hears no other."""
    assert group_rules(PLATFORMS, platform, chat) == rules


ACCOUNTS = make_settings(
    {
        "platforms": {
            "chat": {
                "groups": ["1"],
                "accounts": {
                    "work": {"owner": 42, "groups": ["2"]},
                    "home": {"allow": ["7"]},
                    "odd": 5,
                    "all": {"groups": None},
                },
            },
            "hook": {"enabled": True, "accounts": {"a": {"role": "owner"}, "b": None, "c": {"role": "king"}}},
            "one": {"enabled": True, "account": "door", "role": "owner"},
            "bare": {"enabled": True},
            "off": {"accounts": {"a": {}}},
        }
    }
)


ACCOUNT_NAMES = ("", "work", "home", "all")


def test_accounts_list_identities_and_groups_too() -> None:
    """G2: somebody is the same person to all accounts; a group has the rules of the account that is in it."""
    assert [listed_role(ACCOUNTS, "chat", sender) for sender in ("42", "7", "8")] == ["owner", "member", ""]
    heard = {
        account: [group_rules(ACCOUNTS, "chat", chat, account).allowed for chat in "12"] for account in ACCOUNT_NAMES
    }
    assert heard == {"": [True, False], "work": [False, True], "home": [True, False], "all": [True, True]}


@pytest.mark.parametrize(
    ("platform", "account", "role"),
    [
        ("hook", "a", "owner"),
        ("hook", "b", "member"),
        ("hook", "c", "member"),
        ("hook", "hook", ""),
        ("hook", "", ""),
        ("one", "door", "owner"),
        ("one", "one", ""),
        ("bare", "bare", "member"),
        ("off", "a", ""),
        ("none", "none", ""),
    ],
)
def test_a_program_is_let_in_by_being_set_up(platform: str, account: str, role: str) -> None:
    """G1: and by nothing else; what is switched off or taken out is nobody."""
    assert program_role(ACCOUNTS, platform, account) == role


def test_switches_of_the_settings() -> None:
    """G12: shared unless the owner says no; G4: members approve only if the owner says so."""
    assert Settings().people == make_settings({"people": None}).people == PeopleSettings(True, False)


@pytest.mark.parametrize("kind", ["dm", "group", "channel"])
@pytest.mark.parametrize("role", ["owner", "admin", "member"])
def test_without_sharing_rules_everything_is_the_owners(kind: str, role: str) -> None:
    assert scope_of(kind, role, "p-1", "c", shared=False) == Scope()


def test_what_belongs_to_whom() -> None:
    """G12: the owner's chats to the owner, other people's to each, a group to itself."""
    assert scope_of("dm", "owner", "p-1", "c", shared=True) == Scope()
    assert scope_of("dm", "member", "p-1", "c", shared=True) == Scope("p-1", "people/p-1")
    assert scope_of("dm", "admin", "p-2", "c", shared=True) == Scope("p-2", "people/p-2")
    group = scope_of("group", "owner", "p-1", "c", shared=True)
    assert group == scope_of("group", "member", "p-2", "c", shared=True)
    assert group.person_id.startswith("chat-")
    assert group != scope_of("group", "member", "p-2", "other", shared=True)
    assert scope_of("dm", "", "", "c", shared=True).person_id not in ("", "p-1")


def test_the_owner_works_in_somebodys_conversation_as_their_guest() -> None:
    """G12: their own memory is not put into another person's chat."""
    assert scope_of("dm", "owner", "owner", "c", shared=True, belongs="p-1") == Scope("p-1", "people/p-1")
    assert scope_of("dm", "owner", "owner", "c", shared=False, belongs="p-1") == Scope()


@given(
    kind=st.sampled_from(["dm", "group", "channel", ""]),
    role=st.sampled_from(["owner", "admin", "member", ""]),
    person=st.sampled_from(["p-1", "p-2", ""]),
    conversation=st.text(),
)
def test_only_the_owners_direct_chat_sees_the_owners_data(kind: str, role: str, person: str, conversation: str) -> None:
    """G12: in shared mode no other way leads to the home's own memory; a scope's folder is one plain name deep."""
    scope = scope_of(kind, role, person, conversation, shared=True)
    assert (scope == Scope()) == (kind == "dm" and role == "owner")
    assert scope.folder.count("/") == (1 if scope.person_id else 0)
    assert ".." not in scope.folder
