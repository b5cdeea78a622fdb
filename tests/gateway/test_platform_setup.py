"""The set-up of chat apps: what is asked, what is tried, and what is kept where."""

import os
import re
import shlex
from pathlib import Path

import pytest

from gateway.platforms.platform_list import all_specs
from gateway.service.admin import platform_setup
from gateway.service.admin.platform_setup import find_platform, view_platform
from hermes_base.store_place import find_place
from hermes_cli import config
from hermes_cli.cmds import doctor, platform_setup_cmd
from hermes_lab.chats.telegram.telegram_lab import TelegramLab
from hermes_state.sql.store_sql import Store

SECRET, OTHER = "s" * 40, "o" * 40


def read_webhook() -> dict[str, object]:
    section = config.load_settings().platforms["webhook"]
    assert isinstance(section, dict)
    return section


def test_each_hook_is_set_up_for_itself(home: Path) -> None:
    """G2: another hook neither changes those that are there nor lends them its role."""
    first = {"account": "alarm", "secret": SECRET, "signature": "hermes", "role": "owner", "reply_url": ""}
    assert platform_setup.use_answers("webhook", first).ok
    second = {"account": "garden", "secret": OTHER, "signature": "github", "role": "member"}
    assert platform_setup.use_answers("webhook", second).ok
    assert read_webhook() == {
        "enabled": True,
        "accounts": {
            "alarm": {"signature": "hermes", "role": "owner"},
            "garden": {"signature": "github", "role": "member"},
        },
    }
    kept = (home / ".env").read_text()
    assert f"HERMES_WEBHOOK_SECRET_ALARM={SECRET}" in kept
    assert f"HERMES_WEBHOOK_SECRET_GARDEN={OTHER}" in kept


def test_what_will_not_do_is_said_and_nothing_is_kept(home: Path) -> None:
    """H5"""
    for answers, said in (
        ({"account": "my alarm!", "secret": SECRET}, "1 to 64 letters"),
        ({"account": "alarm", "secret": "short"}, "too short"),
        ({"account": "alarm", "secret": SECRET, "role": "king"}, "member, owner"),
    ):
        probed = platform_setup.use_answers("webhook", answers)
        assert not probed.ok
        assert said in probed.text
    named = platform_setup.use_answers("telegram", {"token": "1:a", "owner": "@ann"})
    assert not named.ok
    assert "is a number" in named.text
    assert not (home / ".env").exists()
    assert "platforms" not in (home / "config.yaml").read_text() if (home / "config.yaml").exists() else True


def test_an_empty_answer_takes_out_what_was_set(home: Path) -> None:
    """G3: who clears the owner's id does not keep the owner."""
    with TelegramLab() as lab:
        config.set_value("platforms.telegram.base_url", lab.address)
        assert platform_setup.use_answers("telegram", {"token": lab.token, "owner": "7001"}).ok
        assert config.load_settings().platforms["telegram"]["owner"] == "7001"
        told = platform_setup.use_answers("telegram", {"token": "", "owner": ""})
        assert told.ok, told.text
        assert config.load_settings().platforms["telegram"] == {"base_url": lab.address, "enabled": True}
        assert f"TELEGRAM_BOT_TOKEN={lab.token}" in (home / ".env").read_text()


def test_a_platform_with_several_accounts_is_not_changed_as_a_whole(home: Path) -> None:
    """G2: an owner that is written there would be the owner in all of them."""
    home.mkdir(exist_ok=True)
    (home / "config.yaml").write_text("platforms:\n  telegram:\n    accounts:\n      work: {}\n      home: {}\n")
    probed = platform_setup.use_answers("telegram", {"token": "1:a", "owner": "7001"})
    assert not probed.ok
    assert "several accounts" in probed.text
    assert "owner" not in (home / "config.yaml").read_text()


@pytest.mark.parametrize("name", [spec.name for spec in all_specs() if spec.setup])
def test_what_cannot_be_set_up_here_is_said_before_anything_is_asked(
    name: str, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """H5, H8: nobody types a password for nothing, in the terminal or on the page."""
    home.mkdir(exist_ok=True)
    shown = answer_by_hand(monkeypatch, [], [])
    asks_name = any(one.key == platform_setup.ACCOUNT for one in platform_setup.find_platform(name).setup)
    section = "account: one" if asks_name else "accounts: {work: {}, home: {}}"
    (home / "config.yaml").write_text(f"platforms:\n  {name}:\n    {section}\n")
    for begin in (platform_setup_cmd.main, platform_setup_cmd.print_without_terminal):
        with pytest.raises(config.ConfigProblem, match=r"several accounts|the only one"):
            begin(name)
    assert shown == []
    assert "Nothing was changed" in view_platform(find_platform(name)).barred
    (home / "config.yaml").write_text("{}")
    assert view_platform(find_platform(name)).barred == ""


@pytest.mark.parametrize("before", ["platforms:\n", "platforms:\n  telegram:\n", "platforms:\n  telegram: true\n"])
def test_a_section_without_settings_is_filled(home: Path, before: str) -> None:
    """H5: what was asked and tried is kept, whatever stood where it belongs."""
    home.mkdir(exist_ok=True)
    (home / "config.yaml").write_text(before)
    spec = platform_setup.find_platform("telegram")
    platform_setup.keep_answers(spec, "telegram", {"token": "1:a", "owner": "7001"})
    assert config.load_settings().platforms["telegram"] == {"enabled": True, "owner": "7001"}


@pytest.mark.parametrize("before", ["", "    accounts:\n", "    accounts:\n      42:\n"])
def test_a_hook_is_set_up_where_its_section_is_empty(home: Path, before: str) -> None:
    """H5"""
    home.mkdir(exist_ok=True)
    (home / "config.yaml").write_text(f"platforms:\n  webhook:\n{before}")
    probed = platform_setup.use_answers("webhook", {"account": "42", "secret": SECRET, "role": "owner"})
    assert probed.ok, probed.text
    assert {str(name): own for name, own in read_webhook()["accounts"].items()} == {"42": {"role": "owner"}}  # type: ignore[attr-defined]


def test_a_file_that_cannot_be_written_leaves_no_trace(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """H5: "Nothing was changed" is true of every file in the home, also where the environment has a value."""
    home.mkdir(exist_ok=True)
    replace, answers = os.replace, {"account": "alarm", "secret": SECRET}

    def refuse_settings(here: Path, there: Path) -> None:
        if Path(there).name == "config.yaml":
            raise OSError(16, "Device or resource busy")
        replace(here, there)

    monkeypatch.setattr(os, "replace", refuse_settings)
    assert "Nothing was changed" in platform_setup.use_answers("webhook", answers).text
    assert list(home.iterdir()) == []
    (home / ".env").write_text("OTHER=1\n")
    monkeypatch.setenv("HERMES_WEBHOOK_SECRET_ALARM", SECRET)
    assert not platform_setup.use_answers("webhook", answers).ok
    assert [(path.name, path.read_text()) for path in home.iterdir()] == [(".env", "OTHER=1\n")]


# --- what stands in brackets and in the fields is what holds


def answer_by_hand(monkeypatch: pytest.MonkeyPatch, secrets: list[str], texts: list[str]) -> list[str]:
    """Type these answers; returns the prompts that were shown."""
    shown: list[str] = []

    def take(given: list[str], prompt: str) -> str:
        shown.append(prompt)
        return given.pop(0)

    monkeypatch.setattr("getpass.getpass", lambda prompt: take(secrets, prompt))
    monkeypatch.setattr("builtins.input", lambda prompt: take(texts, prompt))
    return shown


def test_the_brackets_of_a_second_try_say_what_was_answered(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """G3: whoever is taken out at the first try is not shown as if they stayed."""
    with TelegramLab() as lab:
        config.set_value("platforms.telegram.base_url", lab.address)
        config.set_value("platforms.telegram.owner", "7001")
        shown = answer_by_hand(monkeypatch, ["1:wrong", lab.token], ["-", ""])
        assert platform_setup_cmd.main("telegram") == 0
    assert [prompt.rpartition("[")[2] for prompt in shown] == [
        "none]: ",
        "7001]: ",
        "the one that was typed]: ",
        "none]: ",
    ]
    assert "owner" not in config.load_settings().platforms["telegram"]
    assert home.exists()


def test_a_hook_that_is_there_is_shown_as_it_is(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """G2: Enter keeps the role that stands in brackets, and that is the one that the hook has."""
    first = {"account": "alarm", "secret": SECRET, "signature": "github", "role": "owner"}
    assert platform_setup.use_answers("webhook", first).ok
    before = read_webhook()
    shown = answer_by_hand(monkeypatch, [""], ["alarm", "", "", ""])
    assert platform_setup_cmd.main("webhook") == 0
    assert [prompt.rpartition("[")[2] for prompt in shown] == [
        "webhook]: ",
        "the one that is there]: ",
        "github]: ",
        "owner]: ",
        "none]: ",
    ]
    assert read_webhook() == before
    view = view_platform(find_platform("webhook"))
    assert [one.value for one in view.accounts["alarm"]] == ["alarm", "", "github", "owner", ""]
    assert not any(one.has_value for one in view.questions)
    assert home.exists()


def test_a_list_is_shown_as_one_would_answer_it(home: Path) -> None:
    """What a field shows can be sent back as it stands."""
    home.mkdir(exist_ok=True)
    (home / "config.yaml").write_text("platforms:\n  irc:\n    channels: ['#ops', '#dev key']\n")
    fields = {one.key: one.value for one in view_platform(find_platform("irc")).questions}
    assert fields["channels"] == "#ops, #dev key"


# --- who is let in


def test_whoever_sets_up_reads_who_is_let_in(home: Path) -> None:
    """G1: on the page as in the terminal."""
    with TelegramLab() as lab:
        config.set_value("platforms.telegram.base_url", lab.address)
        told = platform_setup.use_answers("telegram", {"token": lab.token, "owner": "7001"}).text
        assert "7001 is let in as the owner. Anybody else who writes gets a code" in told
        told = platform_setup.use_answers("telegram", {"owner": ""}).text
        assert "`hermes people approve CODE --role owner` lets you in" in told
    assert home.exists()


def test_the_owner_of_another_app_reads_the_command_that_works(home: Path) -> None:
    """G2: there is one owner, so a code cannot make another."""
    home.mkdir(exist_ok=True)
    store = Store(find_place(home))
    olga = store.people.add("Olga", "owner", "telegram", "7001")
    told = platform_setup.find_told("mail")
    assert f"`hermes people link {olga.id} mail YOUR-ID-HERE`" in told
    assert "approve" not in told
    store.people.link(olga.id, "mail", "olga@example.org")
    assert platform_setup.find_told("mail").startswith("Whom you let in before is let in.")
    store.close()


def test_where_nobody_can_write_first_no_code_is_promised(home: Path) -> None:
    """G1: an app that answers only invitations of people who are let in is closed to everybody until one is."""
    config.set_value("platforms.matrix.enabled", "true")
    told = platform_setup.find_told("matrix")
    assert "code" not in told
    assert "`hermes setup matrix` again and give your own id" in told
    (found,) = doctor._check_people(config.load_settings())
    assert found.what.startswith("Matrix: Nobody is let in yet")
    config.set_value("platforms.matrix.owner", "@olga:example.org")
    assert "gets a code" not in platform_setup.find_told("matrix")
    assert list(doctor._check_people(config.load_settings())) == []
    assert home.exists()


# --- what is installed


def test_no_other_program_is_installed_under_our_name() -> None:
    """H5: an index may have somebody else's package under the name of this one, so only what is needed is named."""
    needing = [spec for spec in all_specs() if spec.extra]
    assert needing
    for spec in needing:
        words = shlex.split(platform_setup.name_install(spec))
        assert words == ["pip", "install", *platform_setup.read_requirements(spec)]
        assert len(words) > 2
    root = Path(__file__).resolve().parents[2]
    told = [path for folder in ("src", "docs") for path in (root / folder).rglob("*") if path.suffix in (".py", ".md")]
    for path in (root / "README.md", *told):
        assert not re.search(r"install\W+hermes-agent|hermes-agent\[", path.read_text(encoding="utf-8")), path
