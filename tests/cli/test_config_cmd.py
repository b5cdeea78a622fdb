"""`hermes config` as people type it (H2)."""

import io
from pathlib import Path

import pytest

from agent.auxiliary_client import find_runtime
from hermes_base import setting_table as table
from hermes_cli import config
from hermes_cli.cmds import config_cmd
from hermes_cli.main import main

SECRET = "sk-or-0123456789abcdef"


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HERMES_HOME", str(tmp_path))
    monkeypatch.delenv("HERMES_PROFILE", raising=False)
    monkeypatch.delenv("OPENROUTER_API_KEY", raising=False)
    return tmp_path


def test_set_get_and_explain(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """H2, H6: each answer says where the value is kept and when it takes effect."""
    assert main(["config", "set", "plugins.enabled", "a,b"]) == 0
    said = capsys.readouterr().out
    assert str(home / "config.yaml") in said
    assert "when hermes starts again" in said
    assert main(["config", "get", "plugins.enabled"]) == 0
    assert capsys.readouterr().out == '["a", "b"]\n'
    assert main(["config", "explain", "plugins.enabled"]) == 0
    said = capsys.readouterr().out
    for word in ('["a", "b"]', "line 2", "the default []", "Plugins that may run."):
        assert word in said


def test_a_change_that_costs_says_so(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A12."""
    main(["config", "set", "model.default", "m"])
    assert "full price" in capsys.readouterr().out


def test_a_misspelt_key_is_refused_with_a_suggestion(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """H2."""
    for action in (["set", "model.defualt", "x"], ["get", "model.defualt"], ["explain", "model.defualt"]):
        assert main(["config", *action]) == 1
        assert "Did you mean model.default?" in capsys.readouterr().err
    assert list(home.iterdir()) == []


@pytest.mark.parametrize(
    ("key", "value", "told"),
    [
        ("OPENROUTR_API_KEY", SECRET, "Did you mean OPENROUTER_API_KEY?"),
        ("model.provider", "opnrouter", "Did you mean 'openrouter'?"),
        ("model.base_url", "127.0.0.1:8000/v1", "begins with http://"),
        ("model.base_url", "htp://host/v1", "begins with http://"),
    ],
)
def test_names_that_nobody_would_look_up_are_refused(
    home: Path, capsys: pytest.CaptureFixture[str], key: str, value: str, told: str
) -> None:
    """H2: keys, providers and addresses, with what was meant; nothing is kept."""
    assert main(["config", "set", key, value]) == 1
    said = capsys.readouterr().err
    assert told in said
    assert "Nothing was changed." in said
    assert list(home.iterdir()) == []


def test_a_key_of_ones_own_is_taken_once_it_is_named(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["config", "set", "OPENAI2_API_KEY", SECRET]) == 1
    assert main(["config", "set", "model.key_env", "OPENAI2_API_KEY"]) == 0
    assert main(["config", "set", "OPENAI2_API_KEY", SECRET]) == 0
    assert "with the next message" in capsys.readouterr().out.splitlines()[-1]
    assert main(["config", "set", "HERMES_WEB_PASSWORD", SECRET]) == 0
    assert "when hermes starts again" in capsys.readouterr().out


def test_a_secret_is_taken_from_a_pipe_and_never_shown(
    home: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """G6."""
    monkeypatch.setattr("sys.stdin", io.StringIO(SECRET + "\n"))
    assert main(["config", "set", "OPENROUTER_API_KEY"]) == 0
    for action in ("get", "explain"):
        main(["config", action, "OPENROUTER_API_KEY"])
    captured = capsys.readouterr()
    assert SECRET not in captured.out + captured.err
    assert config.env_value("OPENROUTER_API_KEY") == SECRET
    monkeypatch.setattr("sys.stdin", io.StringIO(""))
    assert main(["config", "set", "OPENROUTER_API_KEY"]) == 1


def test_a_shadowed_change_says_what_wins(
    home: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """H2."""
    monkeypatch.setenv("OPENROUTER_API_KEY", "from-the-environment")
    main(["config", "set", "OPENROUTER_API_KEY", SECRET])
    assert "wins over the file" in capsys.readouterr().out


def test_list_shows_all_settings_with_their_meaning(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert config_cmd.main(["list"]) == 0
    said = capsys.readouterr().out
    for row in table.SETTINGS:
        assert f"{row.key} = " in said
        assert row.doc in said


def test_path(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert config_cmd.main(["path"]) == 0
    assert capsys.readouterr().out == f"{home / 'config.yaml'}\n"


def test_unset_takes_back_what_was_set_also_by_mistake(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """H2: comments stay, a section that is left empty goes, and what is not there is said."""
    kept = "# mine\ndisplay:\n  markdown: false # no stars\n"
    (home / "config.yaml").write_text(kept)
    assert main(["config", "set", "platforms.pretnd.enabled", "true"]) == 0
    said = capsys.readouterr().out
    assert "There is no platform 'pretnd'. Did you mean pretend?" in said
    assert "at once" in said
    assert main(["doctor", "--offline"]) == 0
    assert "Did you mean pretend?" in capsys.readouterr().out
    assert main(["config", "unset", "platforms.pretnd.enabled"]) == 0
    assert (home / "config.yaml").read_text() == kept
    main(["config", "set", "OPENROUTER_API_KEY", SECRET])
    main(["config", "set", "OTHER_TOKEN", SECRET])
    assert main(["config", "unset", "OPENROUTER_API_KEY"]) == 0
    assert (home / ".env").read_text() == f"OTHER_TOKEN={SECRET}\n"
    capsys.readouterr()
    assert main(["config", "unset", "display.motto"]) == 1
    assert "display.motto is not set in" in capsys.readouterr().err


def test_a_key_is_not_sent_to_an_address_that_was_set_for_another(
    home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """G6: the lines for a provider, typed where an own server was set before, lead to that provider."""
    own = "http://127.0.0.1:9/v1"
    for line in (
        ["model.base_url", own],
        ["model.key_env", "OWN_KEY"],
        ["OPENROUTER_API_KEY", SECRET],
        ["model.provider", "openrouter"],
        ["model.default", "some/model"],
    ):
        assert main(["config", "set", *line]) == 0
    said = capsys.readouterr().out
    assert "Note: model.base_url was written for the provider before, and was taken out." in said
    found = find_runtime(config.load_settings())
    assert (found.base_url, found.key_env, found.label) == ("https://openrouter.ai/api/v1", "", "OpenRouter")
    assert found.api_key == SECRET
    assert main(["config", "set", "model.base_url", own]) == 0  # a proxy, by whoever knows it
    assert "Note: The key of OpenRouter is sent to this address from now on." in capsys.readouterr().out
    assert find_runtime(config.load_settings()).label == f"OpenRouter at {own}"
    assert main(["config", "set", "model.provider", "custom"]) == 0
    assert find_runtime(config.load_settings()).base_url == own
    assert home.exists()


def test_a_provider_that_cannot_be_is_put_right(home: Path) -> None:
    """H2"""
    (home / "config.yaml").write_text("model:\n  provider: 5\n")
    assert main(["config", "set", "model.provider", "openrouter"]) == 0
    assert config.load_settings().model.provider == "openrouter"
