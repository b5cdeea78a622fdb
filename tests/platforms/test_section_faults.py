"""Settings of platforms that cannot be meant so are told where they are set, by the doctor and in the log."""

import json
from pathlib import Path
from typing import Any

import pytest
from own_ids import OWN_IDS

from gateway.core.people import listed_role
from gateway.platforms.account_settings import read_account
from gateway.platforms.platform_list import all_specs
from gateway.platforms.section_faults import find_odd_settings
from hermes_base.setting_table import read_settings
from hermes_cli import config
from hermes_cli.cmds import config_cmd, doctor


@pytest.mark.parametrize(
    ("section", "key", "said"),
    [
        ({"telegram": {"onwer": "7001"}}, "platforms.telegram.onwer", "Did you mean owner?"),
        ({"telegram": {"reaction": False}}, "platforms.telegram.reaction", "Did you mean reactions?"),
        ({"irc": {"chanels": "#a"}}, "platforms.irc.chanels", "Did you mean channels?"),
        ({"irc": {"accounts": {"libera": {"tsl": False}}}}, "platforms.irc.accounts.libera.tsl", "Did you mean tls?"),
        ({"telegram": {"enabled": "yes"}}, "platforms.telegram.enabled", "true or false, so it is off"),
        ({"slack": {"answer_in_threads": "perhaps"}}, "platforms.slack.answer_in_threads", "true or false"),
        ({"telegram": {"allow": {"7002": True}}}, "platforms.telegram.allow", "a list of ids"),
        ({"xmpp": {"jid": "h@x.test", "owner": "H@x.test"}}, "platforms.xmpp.owner", "the account of Hermes itself"),
        ({"telegram": True}, "platforms.telegram", "nothing of it is used"),
    ],
)
def test_what_cannot_be_meant_so_is_told(
    section: dict[str, Any], key: str, said: str, home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """H3: by the doctor, with the name of the setting and what to do."""
    found = list(find_odd_settings(section))
    assert [problem.key for problem in found] == [key]
    assert said in str(found[0])
    home.mkdir(exist_ok=True)
    (home / "config.yaml").write_text(json.dumps({"platforms": section}))
    doctor.main(["--offline"])
    assert found[0].what in capsys.readouterr().out


def test_what_the_pages_allow_is_in_order() -> None:
    for spec in all_specs():
        section: dict[str, Any] = dict.fromkeys((*spec.settings, *(one.key for one in spec.setup)), "x")
        id = OWN_IDS[spec.name].person if spec.name in OWN_IDS else 7001
        section |= dict.fromkeys(spec.switches, False) | {"enabled": True, "owner": id, "allow": [id]}
        assert spec.switches <= spec.settings.keys()
        given = {**section, "chats": {}, "groups": [], "model": "m", "accounts": {"a": section, "b": None}}
        assert not list(find_odd_settings({spec.name: given}))
        assert not list(find_odd_settings({spec.name: None}))


def test_whoever_sets_a_misspelt_name_reads_so(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    config_cmd.main(["set", "platforms.telegram.onwer", "7001"])
    assert "Note: platforms.telegram.onwer is not known; it is kept and ignored. Did you mean owner?" in (
        capsys.readouterr().out
    )
    config_cmd.main(["set", "platforms.telegram.owner", "7001"])
    assert "Note" not in capsys.readouterr().out
    assert home.exists()


def test_a_switch_takes_the_words_that_people_use(home: Path) -> None:
    """A platform that somebody has switched on is on."""
    for key, word, value in (
        ("platforms.telegram.enabled", "yes", True),
        ("platforms.irc.accounts.libera.tls", "off", False),
        ("platforms.telegram.reactions", "No", False),
        ("platforms.signal.receipts", "0", False),
    ):
        config_cmd.main(["set", key, word])
        assert config.get_value(key) is value
    with pytest.raises(config.ConfigProblem, match="true or false"):
        config_cmd.main(["set", "platforms.telegram.enabled", "perhaps"])
    assert home.exists()


def test_every_setting_that_is_yes_or_no_is_a_switch() -> None:
    """One that is not would be kept as the word `no`, which is none, and do nothing."""
    for spec in all_specs():
        told = {name for name, what in spec.settings.items() if what.startswith(("false:", "true:"))}
        assert told == spec.switches, spec.name


@pytest.mark.parametrize("word", [False, "no", "off", "False", "0", 0])
def test_a_switch_that_stands_in_the_file_as_a_word_is_off(word: Any) -> None:
    for spec in all_specs():
        for name in spec.switches:
            section = {"accounts": {"own": {name: word}}}
            assert read_account(spec, section, "own", lambda _: "")[name] is False
            assert not list(find_odd_settings({spec.name: section}))


def test_ids_may_stand_in_one_text(home: Path) -> None:
    """G2: `hermes config set` with commas lets in those who are named, and nobody else."""
    config_cmd.main(["set", "platforms.telegram.allow", "7002, 7003"])
    settings = read_settings({"platforms": config.load_settings().platforms})
    assert [listed_role(settings, "telegram", id) for id in ("7002", "7003", "7002, 7003", "")] == [
        "member",
        "member",
        "",
        "",
    ]
    assert home.exists()
