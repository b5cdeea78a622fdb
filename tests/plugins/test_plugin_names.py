"""Names that plugins import from the host, each with what it does."""

import os

import pytest

import hermes_constants
import hermes_state
from agent.secret_scope import get_secret
from hermes_cli import config, setup
from hermes_state import SessionDB
from tools.env_passthrough import get_all_passthrough, register_env_passthrough


def test_a_variable_is_kept_and_there_at_once(home):
    (home / ".env").write_text("OTHER=stays\n")
    config.save_env_value("PROBE_NAME", "one")
    assert os.environ["PROBE_NAME"] == config.get_env_value("PROBE_NAME") == get_secret("PROBE_NAME") == "one"
    assert (home / ".env").read_text() == "OTHER=stays\nPROBE_NAME=one\n"
    assert config.save_env_value_secure("PROBE_NAME", "two")["success"]
    assert os.environ["PROBE_NAME"] == "two"
    assert config.remove_env_value("PROBE_NAME")
    assert not config.remove_env_value("PROBE_NAME")
    assert "PROBE_NAME" not in os.environ
    assert config.get_env_value("PROBE_NAME") is None
    assert get_secret("PROBE_NAME", "fallback") == "fallback"
    with pytest.raises(ValueError, match="no name"):
        config.save_env_value("not a name", "x")


def test_settings_are_set_by_name(home, capsys):
    config.set_config_value("memory.mine.size", "7")
    config.set_config_value("nobody.knows", "true")
    config.set_config_value("PROBE_API_KEY", "secret-value-1")
    config.write_platform_config_field("pretend", "enabled", "true")
    raw = config.read_raw_config()
    assert raw["memory"]["mine"]["size"] == 7
    assert raw["nobody"] == {"knows": True}
    assert raw["platforms"] == {"pretend": {"enabled": True}}
    assert config.get_env_value("PROBE_API_KEY") == "secret-value-1"
    assert "secret-value-1" not in capsys.readouterr().out
    assert config.DEFAULT_CONFIG["compression"]["enabled"] is True


def test_questions_have_a_default(monkeypatch, capsys):
    answers = iter(["", "no", "2", "nonsense"])
    monkeypatch.setattr("builtins.input", lambda shown: next(answers))
    assert setup.prompt("Name", "Ada") == "Ada"
    assert setup.prompt_yes_no("Sure?") is False
    assert setup.prompt_choice("Which?", ["a", "b"]) == 1
    assert setup.prompt_choice("Which?", ["a", "b"], default=1) == 1
    monkeypatch.setattr("builtins.input", lambda shown: (_ for _ in ()).throw(EOFError))
    assert setup.prompt_yes_no("Sure?", default=False) is False
    with pytest.raises(SystemExit):
        setup.prompt("Name")


def test_what_commands_see_stays_the_owners_word():
    """G6"""
    register_env_passthrough(["PROBE_KEY"])
    assert "PROBE_KEY" in get_all_passthrough()


def test_folders_of_the_home(home, monkeypatch):
    monkeypatch.setenv("HOME", str(home.parent))
    assert hermes_constants.display_hermes_home() == "~/home"
    assert hermes_constants.get_hermes_dir("cache/new", "old") == home / "cache/new"
    (home / "old").mkdir()
    assert hermes_constants.get_hermes_dir("cache/new", "old") == home / "old"


def test_sessions_are_written_and_read(home):
    """E2: over our own store."""
    with SessionDB() as db:
        assert db.db_path == hermes_state.DEFAULT_DB_PATH
        session = db.create_session("20260101_000000_abcdef", "telegram", model="m")
        assert db.ensure_session(session) == session
        assert db.append_message(session, "user", "hello") == 0
        assert db.append_message(session, "assistant", "hi") == 1
        assert [row["content"] for row in db.get_messages(session)] == ["hello", "hi"]
        assert [row["content"] for row in db.get_messages(session, limit=1, offset=1)] == ["hi"]
        assert db.set_session_title(session, "greeting")
        other = db.create_session("20260102_000000_abcdef", "cli")
        db.append_message(other, "user", "x")
        with pytest.raises(ValueError, match="greeting"):
            db.set_session_title(other, "greeting")
    with SessionDB(read_only=True) as db:
        assert db.get_session(session)["source"] == "telegram"
        assert db.get_session_title(session) == "greeting"
        assert db.resolve_session_id("20260101") == session
        assert db.resolve_session_id("2026") is None
        rich = db.list_sessions_rich(source="telegram")
        assert [(row["id"], row["preview"]) for row in rich] == [(session, "hello")]
        assert db.session_count() == 2
        assert db.get_messages("nowhere") == []
    with SessionDB() as db:
        assert db.delete_session(other)
        assert db.get_session(other) is None
