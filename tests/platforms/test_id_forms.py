"""An id has one spelling: whatever is typed at the set-up, in the settings or in a command is compared as the app
writes it, on every app that asks for the owner's id."""

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from own_ids import OWN_IDS

from gateway.core.chat_settings import read_chat
from gateway.core.people import group_rules, listed_role
from gateway.platforms.face import ProbeAnswer
from gateway.platforms.platform_list import all_specs, spec_of
from gateway.platforms.section_faults import find_odd_settings
from gateway.service.admin import people_admin, platform_setup
from gateway.service.gateway import as_from_outside
from gateway.turns.sender import admit
from hermes_base.errors import HermesError
from hermes_base.inbound import Address, Inbound
from hermes_base.setting_table import make_settings
from hermes_cli import config
from hermes_cli.cmds import config_cmd
from hermes_constants import STORE_FILE
from hermes_state.people_store import MEMBER, OWNER
from hermes_state.sql.store_sql import Store

APPS = sorted(OWN_IDS)
WITH_GROUPS = [name for name in APPS if OWN_IDS[name].group]


@pytest.fixture
def store(home: Path) -> Iterator[Store]:
    home.mkdir(exist_ok=True)
    with closing(Store(home / STORE_FILE)) as store:
        yield store


def test_every_app_that_asks_for_an_owner_is_looked_at() -> None:
    assert [spec.name for spec in all_specs() if any(one.key == "owner" for one in spec.setup)] == APPS


@pytest.mark.parametrize("name", APPS)
def test_what_is_in_its_own_form_stays_in_it(name: str) -> None:
    """G2"""
    spec, ids = spec_of(name), OWN_IDS[name]
    assert spec.person_ids.read(ids.typed) == [ids.person] == spec.person_ids.read(ids.person)
    assert spec.person_ids.fits(ids.person)
    assert not spec.person_ids.fits(spec.person_ids.bring(ids.nobody))


@pytest.mark.parametrize("name", APPS)
def test_whom_the_set_up_calls_the_owner_is_the_owner(name: str, store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """G1, G2: the sentence names the id that is compared, and who has it is let in."""
    monkeypatch.setattr(platform_setup, "probe_platform", lambda spec, section: ProbeAnswer("It is the bot."))
    ids = OWN_IDS[name]
    probed = platform_setup.use_answers(name, {"owner": ids.typed})
    assert probed.ok, probed.text
    assert f"{ids.person} is let in as the owner." in probed.text
    section = config.load_settings().platforms[name]
    assert (section["owner"], section["enabled"]) == (ids.person, True)
    assert admit(store.people, config.load_settings(), name, ids.person).role == OWNER


@pytest.mark.parametrize("name", APPS)
def test_an_id_that_nobody_can_have_is_not_kept(name: str, home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """H5: before the service is asked."""
    monkeypatch.setattr(platform_setup, "probe_platform", lambda spec, section: pytest.fail("it was asked"))
    probed = platform_setup.use_answers(name, {"owner": OWN_IDS[name].nobody})
    assert not probed.ok
    assert "will not do: owner" in probed.text
    assert "Nothing was changed" in probed.text
    assert not (home / "config.yaml").exists()


@pytest.mark.parametrize("name", APPS)
def test_settings_are_read_in_that_form(name: str) -> None:
    """G2: as they were written by hand, for owner, members and what a message brings."""
    ids = OWN_IDS[name]
    for key, role in (("owner", OWNER), ("allow", MEMBER)):
        settings = make_settings({"platforms": {name: {"accounts": {"a": {key: [ids.typed]}}}}})
        assert listed_role(settings, name, ids.person) == role
        assert listed_role(settings, name, f"{ids.person}0") == ""
    said = as_from_outside(Inbound(Address(name, "bot", "chat"), "1", ids.typed.strip(), "Hello"))
    assert said.sender == ids.person


@pytest.mark.parametrize("name", WITH_GROUPS)
def test_groups_and_chats_are_read_in_that_form(name: str) -> None:
    """G1"""
    ids = OWN_IDS[name]
    typed = ids.typed_group.strip()
    for groups in ([ids.typed_group], {typed: {"open": True}}):
        rules = group_rules(make_settings({"platforms": {name: {"groups": groups}}}), name, ids.group)
        assert (rules.allowed, rules.open) == (True, isinstance(groups, dict))
    for key, chat in ((typed, ids.group), (f"work/{typed}", f"work/{ids.group}")):
        own = {"chats": {key: {"model": "m"}}, "accounts": {"work": {}}}
        assert read_chat(make_settings({"platforms": {name: own}}), name, chat).model == "m"


@pytest.mark.parametrize("name", APPS)
def test_what_nobody_can_be_called_is_told_where_it_is_set(
    name: str, home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """H3: by `hermes config set` at once, and by the doctor for what was written by hand."""
    spec, ids = spec_of(name), OWN_IDS[name]
    config_cmd.main(["set", f"platforms.{name}.owner", ids.nobody])
    assert f"Note: platforms.{name}.owner names" in capsys.readouterr().out
    groups = {"groups": {ids.no_group: {}}} if ids.group else {}
    found = list(find_odd_settings({name: {"allow": [ids.typed, ids.nobody], **groups}}))
    assert [problem.key for problem in found] == [f"platforms.{name}.{key}" for key in ("allow", *groups)]
    assert spec.person_ids.says in found[0].what
    assert not list(find_odd_settings({name: {"owner": ids.typed, "groups": [ids.typed_group]}}))
    assert home.exists()


@pytest.mark.parametrize("name", APPS)
def test_commands_on_people_take_what_is_typed(name: str, store: Store, home: Path) -> None:
    """G2, G3: linked and taken back under any spelling; what can be nobody is refused."""
    ids, person = OWN_IDS[name], store.people.add("Ann", MEMBER, "other", "1").id
    args = {"id": person, "platform": name, "sender": ids.typed}
    people_admin.link(store, home, args)
    found = store.people.find(name, ids.person)
    assert found is not None
    assert found.id == person
    people_admin.unlink(store, home, args)
    assert store.people.find(name, ids.person) is None
    with pytest.raises(HermesError, match=r"Nobody on .* is called"):
        people_admin.link(store, home, {**args, "sender": ids.nobody})


@pytest.mark.parametrize("platform", ["irc", "mail", "matrix", "signal"])
def test_a_sign_that_only_looks_like_a_letter_stays_another(platform: str) -> None:
    """G2: the sign of the Kelvin is no k, though Python's small letters say so."""
    form = spec_of(platform).person_ids
    assert form.bring("@Mar\N{KELVIN SIGN}@X:Example.ORG") != form.bring("@mark@x:example.org")
