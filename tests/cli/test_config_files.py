"""Reading `config.yaml` and `.env`: merging, caching, and a clear sentence for whatever is wrong with them."""

import itertools
import logging
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from hermes_base import setting_table as table
from hermes_base.errors import ConfigProblem
from hermes_cli import config
from hermes_cli.config import config_edit
from hermes_constants import home_override


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HERMES_HOME", str(tmp_path))
    return tmp_path


@contextmanager
def _as_somebody_else() -> Iterator[None]:
    """Root may read everything: leave it for a moment."""
    was_root = os.geteuid() == 0
    if was_root:
        os.seteuid(65534)
    try:
        yield
    finally:
        if was_root:
            os.seteuid(0)


# --- config.yaml


def test_without_a_file_the_defaults_hold(home: Path) -> None:
    assert config.load_config() == table.defaults()
    assert list(home.iterdir()) == []


def test_the_file_is_merged_over_the_defaults_and_foreign_keys_are_kept(home: Path) -> None:
    (home / "config.yaml").write_text("model:\n  default: m\nagent:\nmemory:\n  mem0: {user: me}\nother: [1]\n")
    loaded = config.load_config()
    assert loaded["model"]["default"] == "m"
    assert loaded["model"]["provider"] == ""
    assert loaded["agent"]["max_iterations"] == 90
    assert loaded["memory"]["mem0"] == {"user": "me"}
    assert loaded["other"] == [1]


def test_load_config_is_a_copy_and_the_readonly_one_is_shared(home: Path) -> None:
    config.load_config()["model"]["default"] = "changed"
    assert config.load_config_readonly()["model"]["default"] == ""
    assert config.load_config_readonly() is config.load_config_readonly()


def test_a_change_of_the_file_and_of_the_home_is_seen(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = home / "config.yaml"
    for name in ("one", "two", "six", "three"):  # some of the same length, within one step of the clock
        path.write_text(f"model: {{default: {name}}}")
        assert config.load_config()["model"]["default"] == name
    monkeypatch.setenv("HERMES_HOME", str(home / "elsewhere"))
    assert config.load_config()["model"]["default"] == ""
    token = home_override.set(home)
    try:
        assert config.load_config()["model"]["default"] == "three"
    finally:
        home_override.reset(token)


def test_unknown_keys_warn_once_per_change_of_the_file(home: Path, caplog: pytest.LogCaptureFixture) -> None:
    """H2."""
    (home / "config.yaml").write_text("modle:\n  default: x\n")
    with caplog.at_level(logging.WARNING):
        for _ in range(3):
            config.load_config()
        assert len(caplog.records) == 1
        assert "modle" in caplog.text
        (home / "config.yaml").write_text("modle:\n  default: xy\n")
        config.load_config()
        assert len(caplog.records) == 2


def test_cfg_get_finds_or_gives_the_default() -> None:
    tree = {"a": {"b": 1, "n": None}}
    assert config.cfg_get(tree, "a", "b") == 1
    assert config.cfg_get(tree, "a", "n", default=3) is None
    assert config.cfg_get(tree, "a", "x", default=2) == 2
    assert config.cfg_get(tree, "a", "b", "c", default=2) == 2
    assert config.cfg_get(None, "a", default=2) == 2


def _grow(first: str, line: str) -> bytes:
    """Nine lines, each of which stands for nine times the one before."""
    letters = "abcdefghi"
    lines = (line.format(mine=b, nine=",".join([f"*{a}"] * 9)) for a, b in itertools.pairwise(letters))
    return f"{first}\n{chr(10).join(lines)}\n".encode()


#: Small files that stand for more than anybody could read. None may cost much.
BOMBS = {
    "aliases": (_grow("a: &a [x,x,x,x,x,x,x,x,x]", "{mine}: &{mine} [{nine}]"), "more than"),
    "merged aliases": (_grow("a: &a {x: 1}", "{mine}: &{mine} {{<<: [{nine}]}}"), "more than"),
    "a chain of aliases": (
        "\n".join(["a0: &a0 [x]", *(f"a{n}: &a{n} [*a{n - 1}]" for n in range(1, 60))]).encode(),
        "deep",
    ),
    "deep brackets": (b"a: " + b"[" * 3_000, "deep"),
    "deep lines": ("".join(" " * n + f"a{n}:\n" for n in range(60)).encode(), "deep"),
    "very many": (b"a:\n" + b" - x\n" * 20_000, "more than"),
    "very long": (b"a: " + b"x" * 2_000_000, "more than"),
}
BAD_FILES = {
    **BOMBS,
    "broken yaml": (b"model:\n  default: [x\nother: 1\n", "line 3"),
    "tab": (b"model:\n\tdefault: x\n", "line 2"),
    "twice the same key": (b"model:\n  default: a\n  default: b\n", "line 3"),
    "a list": (b"- a\n- b\n", "sections"),
    "a word": (b"hello", "sections"),
    "invalid utf-8": (b"model:\n  default: \xff\xfe\n", "line 2"),
    "nul": (b"model:\n  default: \x00\n", "YAML"),
    "two documents": (b"a: 1\n---\nb: 2\n", "YAML"),
    "no such date": (b"a: 2001-99-99\n", "YAML"),
    "brackets": (b"a: " + b"[" * 5000, "YAML"),
    "an anchor that holds itself": (b"a: &a [*a]\nplugins: {enabled: *a}\n", "deep"),
    "an alias without anchor": (b"a: *b\n", "line 1"),
    "a strange tag": (b"a: !!python/object:os.system x\n", "line 1"),
    "a wrong type": (b"# c\nmodel:\n  context_length: big\n", "line 3"),
    "a bad choice": (b"approvals:\n  mode: never\n", "line 2"),
    "a value for a section": (b"agent: 3\n", "line 1"),
}


@pytest.mark.parametrize("name", BAD_FILES)
def test_a_bad_file_is_one_clear_sentence_with_file_place_and_fix(home: Path, name: str) -> None:
    """H8, and nothing is lost."""
    body, place = BAD_FILES[name]
    path = home / "config.yaml"
    path.write_bytes(body)
    with pytest.raises(ConfigProblem) as caught:
        config.load_config()
    assert str(path) in caught.value.what
    assert place in caught.value.what
    assert caught.value.fix
    assert "\n" not in str(caught.value)
    assert path.read_bytes() == body


@pytest.mark.parametrize("name", BOMBS)
def test_a_file_that_stands_for_too_much_leaves_the_last_settings_and_is_read_once(
    home: Path, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """F5, H6: refused before anything of it is made or walked, and not again at each look."""
    (home / "config.yaml").write_text("gateway: {agents: 3}\n")
    assert config.load_last_good().gateway.agents == 3
    (home / "config.yaml").write_bytes(BOMBS[name][0])
    read: list[str] = []
    parse = config_edit.parse_yaml
    monkeypatch.setattr(config_edit, "parse_yaml", lambda text: read.append(text) or parse(text))
    monkeypatch.setattr(table, "walk", lambda *_: pytest.fail("the settings were walked"))
    for _ in range(3):
        assert config.load_last_good().gateway.agents == 3
    assert len(read) == 1


def _break(path: Path, how: str) -> None:
    path.unlink()
    match how:
        case "folder":
            path.mkdir()
        case "loop":
            path.symlink_to(path)
        case "device":
            path.symlink_to("/dev/zero")
        case "bytes":
            path.write_bytes(b"A_KEY=\xff\n")


@pytest.mark.parametrize("how", ["folder", "loop", "device", "bytes"])
def test_a_file_that_breaks_while_running_leaves_what_was_read_last(
    home: Path, how: str, caplog: pytest.LogCaptureFixture
) -> None:
    """H6, G6: settings and variables stay in force, their secrets stay secret, and the log says so once."""
    (home / "config.yaml").write_text("plugins: {x: {api_key: the-secret-of-a-plugin}}\n")
    (home / ".env").write_text("A_KEY=the-secret-of-a-line\n")
    assert config.load_last_good()
    assert config.env_value("A_KEY") == "the-secret-of-a-line"
    _break(home / "config.yaml", how)
    _break(home / ".env", how)
    for _ in range(3):
        assert config.load_last_good().foreign["plugins.x.api_key"]
        assert config.env_value("A_KEY") == config.load_env()["A_KEY"] == "the-secret-of-a-line"
    assert "the-secret" not in config.redactor()("the-secret-of-a-line, the-secret-of-a-plugin")
    assert caplog.text.count("are not used") == 2


@pytest.mark.parametrize("name", ["config.yaml", ".env"])
def test_a_folder_or_a_loop_in_the_files_place_is_one_clear_sentence(home: Path, name: str) -> None:
    load = config.load_config if name == "config.yaml" else config.load_env
    (home / name).mkdir()
    with pytest.raises(ConfigProblem, match="cannot be read"):
        load()
    (home / name).rmdir()
    (home / name).symlink_to(home / name)
    with pytest.raises(ConfigProblem, match="cannot be read"):
        load()


@pytest.mark.parametrize("name", ["config.yaml", ".env"])
def test_a_file_that_may_not_be_read_is_one_clear_sentence(home: Path, name: str) -> None:
    load = config.load_config if name == "config.yaml" else config.load_env
    (home / name).write_text("")
    (home / name).chmod(0)
    with _as_somebody_else(), pytest.raises(ConfigProblem, match=r"cannot be read: Permission denied\. .*may read"):
        load()


@given(st.binary(max_size=60) | st.text("{}[]:-#&*!|>'\"\n ab1.,%@`?~\t", max_size=60).map(str.encode))
@hypothesis_settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
def test_any_bytes_are_settings_or_a_config_problem(home: Path, body: bytes) -> None:
    """H8: never a stack trace."""
    (home / "config.yaml").write_bytes(body)
    (home / ".env").write_bytes(body)
    for load in (config.load_config, config.load_env, config.find_bad_env_lines):
        with suppress(ConfigProblem):
            load()
    config.secrets()


# --- .env


def test_env_lines_are_read_with_quotes_comments_and_export(home: Path) -> None:
    (home / ".env").write_text(
        '# a comment\n\nPLAIN=one\nexport EXPORTED = two \nSINGLE=\'a \\n # b\'\nDOUBLE="a \\"q\\"\\n# b" # c\n'
        "NOTED=three # why\nHASH=a#b\nEMPTY=\nno assignment\nPLAIN=last\n"
    )
    assert config.load_env() == {
        "PLAIN": "last",
        "EXPORTED": "two",
        "SINGLE": "a \\n # b",
        "DOUBLE": 'a "q"\n# b',
        "NOTED": "three",
        "HASH": "a#b",
        "EMPTY": "",
    }
    assert config.find_bad_env_lines() == [10]


def test_the_environment_wins_over_the_file_unless_it_is_empty(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (home / ".env").write_text("FIRST_THING=file\nSECOND_THING=file\n")
    monkeypatch.setenv("FIRST_THING", "environment")
    monkeypatch.setenv("SECOND_THING", "")
    assert config.load_env() == {"FIRST_THING": "environment", "SECOND_THING": "file"}
    assert config.env_value("FIRST_THING") == "environment"
    assert config.env_value("THIRD_THING") == ""
    assert "SECOND_THING" not in {name for name, value in os.environ.items() if value}


def test_invalid_utf8_in_env_names_its_line(home: Path) -> None:
    (home / ".env").write_bytes(b"A=1\nB=\xff\n")
    with pytest.raises(ConfigProblem, match=r"\.env, line 2: .*UTF-8"):
        config.load_env()


# --- secrets


def test_every_configured_secret_is_known_for_redaction(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """G6."""
    (home / ".env").write_text("FROM_FILE=file-secret\nDOUBLED_API_KEY=file-doubled\nMY_BASE_URL=http://localhost:1\n")
    (home / "config.yaml").write_text(
        "model: {key_env: ODD_NAME, fallbacks: [{key_env: ODD_TOO}]}\nauxiliary: {title: {api_key: config-secret}}\n"
    )
    for name, value in {
        "DOUBLED_API_KEY": "environment-doubled",
        "ODD_NAME": "odd-secret",
        "ODD_TOO": "odd-too-secret",
        "BOT_TOKEN": "token-secret",
        "SHORT_TOKEN": "short",
    }.items():
        monkeypatch.setenv(name, value)
    values = set(config.secrets().values())
    wanted = {"file-secret", "file-doubled", "environment-doubled", "odd-secret", "odd-too-secret", "token-secret"}
    assert wanted | {"config-secret"} <= values
    assert not {"short", "http://localhost:1"} & values
    assert config.redactor()("x file-secret y") == "x [redacted FROM_FILE] y"


def test_secrets_are_known_even_when_a_file_is_broken(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """G6, H3."""
    (home / "config.yaml").write_text("[")
    (home / ".env").write_text("FROM_FILE=file-secret\n")
    assert config.secrets()["FROM_FILE"] == "file-secret"
    (home / ".env").write_bytes(b"\xff")
    monkeypatch.setenv("SOME_API_KEY", "environment-secret")
    assert config.secrets()["SOME_API_KEY"] == "environment-secret"


def test_a_file_that_is_being_written_is_not_taken_for_an_empty_one(home: Path) -> None:
    """H6: an editor that saves in place empties the file first; one that stays empty holds the defaults."""
    config.set_value("gateway.busy", "queue")
    assert config.load_last_good().gateway.busy == "queue"
    path = home / "config.yaml"
    path.write_text("")
    assert config.load_last_good().gateway.busy == "queue"
    path.write_text("gateway: {busy: steer}")
    assert config.load_last_good().gateway.busy == "steer"
    path.write_text("")
    os.utime(path, (1_000_000_000, 1_000_000_000))
    assert config.load_last_good().gateway.busy == "interrupt"


def test_variables_are_not_lost_while_their_file_is_being_written(home: Path) -> None:
    """H6: the same holds for keys, which a turn would miss."""
    path = home / ".env"
    path.write_text("A_KEY=the-key\n")
    assert config.env_value("A_KEY") == "the-key"
    path.write_text("")
    assert config.env_value("A_KEY") == "the-key"
    os.utime(path, (1_000_000_000, 1_000_000_000))
    assert config.env_value("A_KEY") == ""
