"""Changing settings: what was asked for changes, and every other character of the file stays (H2)."""

import os
import stat
import threading
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from hermes_base import setting_table as table
from hermes_base.errors import ConfigProblem
from hermes_cli import config
from hermes_cli.config import config_edit

COMMENTED = """\
# my settings

model:          # which model
    default: old   # the one I like
    fallbacks:
        - model: a    # cheap
          provider: x
        - {model: b}

# foreign section
theirs:
  - 1
  -   'two'   # two
plugins:
  enabled:
    - one     # first
    # about two
    - "two"
  entries: {lcm: {x: 1}}

display:
# end
"""


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HERMES_HOME", str(tmp_path))
    return tmp_path


def _changed_lines(before: str, after: str) -> tuple[list[str], list[str]]:
    """Lines that went and lines that came."""
    old, new = before.splitlines(), after.splitlines()
    return [line for line in old if line not in new], [line for line in new if line not in old]


@pytest.mark.parametrize(
    ("key", "text", "went", "came"),
    [
        (
            "model.default",
            "new/model",
            ["    default: old   # the one I like"],
            ["    default: new/model   # the one I like"],
        ),
        ("model.provider", "openai", [], ["    provider: openai"]),
        ("plugins.enabled", "one,two,three", [], ["    - three"]),
        ("plugins.enabled", "two", ["    - one     # first", "    # about two"], []),
        ("plugins.disabled", "x", [], ["  disabled: [x]"]),
        ("display.tool_progress", "off", [], ['  tool_progress: "off"']),
        ("agent.max_iterations", "5", [], ["agent:", "  max_iterations: 5"]),
        ("plugins.entries.lcm.x", "2", ["  entries: {lcm: {x: 1}}"], ["  entries: {lcm: {x: 2}}"]),
    ],
)
def test_a_set_key_changes_its_lines_only(home: Path, key: str, text: str, went: list[str], came: list[str]) -> None:
    """H2."""
    path = home / "config.yaml"
    path.write_text(COMMENTED)
    config.set_value(key, text)
    assert _changed_lines(COMMENTED, path.read_text()) == (went, came)


SCALARS = st.sampled_from(
    ["x", "'q # q'", '"a: b"', "12", "0.5", "true", "null", "~", "[a, b]", "{p: 1}", "", "|\n         text"]
)
COMMENTS = st.sampled_from(["", "  # note", " # x: y"])
NAMES = st.sampled_from(["alpha", "beta", "gamma", "default", "provider", "max_iterations", "enabled"])
SECTIONS = st.sampled_from(["model", "agent", "plugins", "theirs", "display"])
BLANKS = st.sampled_from(["", "\n", "# a line\n", "\n# two\n\n"])
ROWS = [row for row in table.SETTINGS if row.kind in ("str", "int", "int?", "bool", "list[str]") and not row.choices]


@st.composite
def _yaml_files(draw: st.DrawFn) -> str:
    """Files as people write them: sections with comments, blanks, odd indents, values of every look."""
    text = draw(BLANKS)
    for section in draw(st.lists(SECTIONS, unique=True, max_size=4)):
        names = draw(st.lists(NAMES, unique=True, max_size=3))
        text += f"{section}:{draw(COMMENTS)}\n"
        indent = " " * draw(st.integers(1, 4))
        for name in names:
            value = draw(SCALARS)
            is_block = value.startswith("|")
            text += f"{indent}{name}: {value}{'' if is_block else draw(COMMENTS)}\n{draw(BLANKS)}"
        text += draw(BLANKS)
    return text


def _values(row: table.Setting) -> st.SearchStrategy[Any]:
    kinds: dict[str, st.SearchStrategy[Any]] = {
        "str": st.text(st.characters(exclude_categories=("Cs",)), max_size=12),
        "int": st.integers(1, 10**6),
        "int?": st.integers(1, 10**6),
        "bool": st.booleans(),
        "list[str]": st.lists(st.text("abc-#: '\"", min_size=1, max_size=5), max_size=3),
    }
    return kinds[row.kind]


@given(_yaml_files(), st.sampled_from(ROWS).flatmap(lambda row: st.tuples(st.just(row), _values(row))))
@hypothesis_settings(deadline=None, max_examples=150)
def test_set_then_get_and_all_other_data_is_as_before(text: str, case: tuple[table.Setting, Any]) -> None:
    """H2: what was set is what is read; every other value and every comment line is still there, in order."""
    row, value = case
    before = config_edit.parse_yaml(text) or {}
    section, name = row.key.split(".")
    if not isinstance(before.get(section), dict | None):
        return
    after_text = config_edit.set_in_yaml(text, [section, name], value)
    after = config_edit.parse_yaml(after_text)
    assert after[section].pop(name) == value
    for tree in (before, after):
        (tree.get(section) or {}).pop(name, None)
        if not tree.get(section):
            tree.pop(section, None)
    assert list(after.items()) == list(before.items())
    notes = [line for line in text.splitlines() if line.startswith("#")]
    assert [line for line in after_text.splitlines() if line.startswith("#")] == notes


@pytest.mark.parametrize("value", ["\x85", "a\u2028b", "two\nlines", "\x7f", " \t"])
def test_a_sign_that_nobody_sees_is_kept_where_the_library_writes_the_file(value: str) -> None:
    """H2: behind a block of text a value cannot be put in by its characters alone."""
    text = "agent:\n alpha: |\n         text\n"
    after = config_edit.parse_yaml(config_edit.set_in_yaml(text, ["context", "engine"], value))
    assert after == {"agent": {"alpha": "text\n"}, "context": {"engine": value}}


@pytest.mark.parametrize(
    "text", ["a: &x {b: 1}\nmodel: *x\n", "x: &x\n  default: 1\nmodel:\n  <<: *x\n", "model: {default: a}\n"]
)
def test_shared_parts_of_a_file_stay_shared_or_the_edit_is_refused(text: str) -> None:
    """H2: an anchor's other users keep their value."""
    try:
        after = config_edit.parse_yaml(config_edit.set_in_yaml(text, ["model", "default"], "new"))
    except config_edit.CannotEdit:
        return
    assert after["model"]["default"] == "new"
    before = config_edit.parse_yaml(text)
    assert {name: after[name] for name in after if name != "model"} == {n: before[n] for n in before if n != "model"}


@pytest.mark.parametrize("text", ["", "# only a comment", "---\n", "model:\n", "model: {}\n", "model:\r\n  x: 1\r\n"])
def test_odd_files_can_be_edited(home: Path, text: str) -> None:
    path = home / "config.yaml"
    path.write_bytes(text.encode())
    config.set_value("model.default", "m")
    assert config.load_config()["model"]["default"] == "m"
    assert ("\r\n" in text) == (b"\r\n" in path.read_bytes())


@pytest.mark.parametrize(
    ("key", "text", "words"),
    [
        ("model.defualt", "x", "model.default"),
        ("model", "x", "section"),
        ("nothing.like.it", "x", "config list"),
        ("memory.provder", "x", "memory.provider"),
        ("agent.max_iterations", "many", "whole number"),
        ("approvals.mode", "never", "ask, auto, deny"),
        ("model.default", "\udc80", "UTF-8"),
        ("HERMES_HOME", "/x", "shell"),
        ("SOME_TOKEN", "a\0b", "NUL"),
    ],
)
def test_a_refused_change_says_why_and_changes_nothing(home: Path, key: str, text: str, words: str) -> None:
    """H2, H8."""
    (home / "config.yaml").write_text(COMMENTED)
    with pytest.raises(ConfigProblem, match=words):
        config.set_value(key, text)
    assert (home / "config.yaml").read_text() == COMMENTED
    assert not (home / ".env").exists()


@pytest.mark.parametrize("body", [b"model: [", b"- a\n", b"\xff"])
def test_a_broken_file_is_not_written_over(home: Path, body: bytes) -> None:
    (home / "config.yaml").write_bytes(body)
    with pytest.raises(ConfigProblem, match=r"config\.yaml"):
        config.set_value("model.default", "x")
    assert (home / "config.yaml").read_bytes() == body


def test_a_wrong_type_can_be_put_right_with_set(home: Path) -> None:
    (home / "config.yaml").write_text("model:\n  context_length: big\n")
    config.set_value("model.context_length", "8192")
    assert config.load_config()["model"]["context_length"] == 8192


def test_files_are_private_links_stay_links_and_nothing_is_left_over(home: Path) -> None:
    (home / "real").mkdir()
    (home / "real" / "shared.yaml").write_text("# mine\n")
    (home / "config.yaml").symlink_to(home / "real" / "shared.yaml")
    config.set_value("model.default", "m")
    config.set_value("SOME_API_KEY", "k")
    assert (home / "config.yaml").is_symlink()
    for path in (home / "real" / "shared.yaml", home / ".env"):
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert sorted(os.listdir(home)) == [".env", "config.yaml", "real"]
    assert os.listdir(home / "real") == ["shared.yaml"]


def test_the_home_is_made_when_it_is_missing(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HERMES_HOME", str(home / "a" / "b"))
    config.set_value("model.default", "m")
    assert stat.S_IMODE((home / "a" / "b").stat().st_mode) == 0o700


def test_a_home_that_cannot_be_written_is_one_clear_sentence(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (home / "file").write_text("")
    monkeypatch.setenv("HERMES_HOME", str(home / "file"))
    with pytest.raises(ConfigProblem, match="cannot be written"):
        config.set_value("model.default", "m")


def test_two_edits_at_once_are_both_kept(home: Path) -> None:
    keys = [row.key for row in table.SETTINGS if row.kind == "bool"]
    threads = [threading.Thread(target=config.set_value, args=(key, "false")) for key in keys]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    loaded = config.load_config()
    assert [config.cfg_get(loaded, *key.split(".")) for key in keys] == [False] * len(keys)


# --- .env


def test_a_secret_goes_to_env_and_its_comments_stay(home: Path) -> None:
    """H2: names in capitals have their home in `.env`."""
    (home / ".env").write_text("# keys\nA_KEY=1\nexport SOME_TOKEN='old' # mine\n# end\n")
    config.set_value("SOME_TOKEN", 'new "value" #1')
    assert config.load_env()["SOME_TOKEN"] == 'new "value" #1'
    assert (home / ".env").read_text().splitlines()[::3] == ["# keys", "# end"]
    assert not (home / "config.yaml").exists()


@given(st.dictionaries(st.sampled_from(["A_B", "C_D", "EF"]), st.text(st.characters(exclude_categories=("Cs",)))))
def test_any_value_survives_the_way_through_env(values: dict[str, str]) -> None:
    text = "# first\nEF=x"
    for name, value in values.items():
        text = config_edit.set_in_env(text, name, value)
    found = {name: config_edit.read_env_value(raw) for name, raw in _env_lines(text)}
    assert found == {"EF": "x"} | values
    assert text.startswith("# first\n")


def _env_lines(text: str) -> list[tuple[str, str]]:
    found = map(config_edit.ENV_LINE.fullmatch, text.split("\n"))
    return [(line[1], line[2]) for line in found if line]


# --- explain


def test_explain_tells_value_source_and_what_is_shadowed(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """H2."""
    monkeypatch.delenv("SOME_API_KEY", raising=False)
    assert config.explain("model.default").source == "default"
    (home / "config.yaml").write_text(COMMENTED)
    found = config.explain("model.default")
    assert (found.shown, found.source) == ("old", f"{home / 'config.yaml'}, line 4")
    assert found.shadows == ('the default ""',)
    assert found.breaks_prefix
    assert found.takes_effect
    assert config.explain("SOME_API_KEY").source == "not set"
    (home / ".env").write_text("\nSOME_API_KEY=file-secret-4444-abcd\n")
    assert config.explain("SOME_API_KEY").source == f"{home / '.env'}, line 2"
    monkeypatch.setenv("SOME_API_KEY", "environment-secret-wxyz")
    found = config.explain("SOME_API_KEY")
    assert found.source == "the environment"
    assert "line 2" in found.shadows[0]


def test_explain_and_get_never_show_a_secret(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """G6, H2."""
    (home / "config.yaml").write_text(
        "auxiliary: {title: {api_key: config-secret-1234}}\n"
        "model: {fallbacks: [{model: m, api_key: secret-too-1234}]}\n"
    )
    (home / ".env").write_text("SOME_API_KEY=file-secret-1234\n")
    monkeypatch.setenv("OTHER_TOKEN", "short-one")
    assert "secret-too-1234" in config.secrets().values()
    for key in ("auxiliary.title.api_key", "auxiliary", "model.fallbacks", "SOME_API_KEY", "OTHER_TOKEN"):
        shown = f"{config.explain(key)} {config.get_value(key)}"
        assert "secret" not in shown
        assert "short" not in shown


def test_explain_knows_foreign_keys_and_refuses_misspelt_ones(home: Path) -> None:
    (home / "config.yaml").write_text(COMMENTED)
    assert config.explain("theirs").source.endswith("line 11")
    assert config.explain("memory.mem0.user").source == "not set"
    with pytest.raises(ConfigProblem, match=r"model\.default"):
        config.explain("model.defalt")


def test_explain_works_on_a_value_of_the_wrong_type(home: Path) -> None:
    (home / "config.yaml").write_text("agent:\n  max_iterations: lots\n")
    assert "whole number" in config.explain("agent.max_iterations").problem


# --- save_config


def test_save_config_writes_what_changed_and_keeps_the_rest(home: Path) -> None:
    """H2: plugins change the loaded settings and save them."""
    path = home / "config.yaml"
    path.write_text(COMMENTED)
    loaded = config.load_config()
    config.save_config(loaded)
    assert path.read_text() == COMMENTED
    loaded["model"]["provider"] = "openai"
    loaded["memory"]["mem0"] = {"user": "me"}
    del loaded["theirs"]
    config.save_config(loaded)
    again = config.load_config()
    assert again["model"] == loaded["model"]
    assert again["memory"]["mem0"] == {"user": "me"}
    assert "theirs" not in again
    assert "# the one I like" in path.read_text()
    assert "max_iterations" not in path.read_text()


def test_save_config_into_an_empty_home(home: Path) -> None:
    loaded = config.load_config()
    loaded["agent"]["max_iterations"] = 5
    config.save_config(loaded)
    assert config_edit.parse_yaml((home / "config.yaml").read_text()) == {"agent": {"max_iterations": 5}}


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("NAME_API_KEY", "sk-or-v1-0123456789"),
        ("OPENROUTER_API_KEY", "KEY"),
        ("OPENROUTER_API_KEY", "your-api-key"),
        ("OPENAI_API_KEY", "YOUR_OPENAI_API_KEY"),
        ("OPENAI_API_KEY", "OPENAI_API_KEY"),
        ("OPENAI_API_KEY", "<key>"),
        ("OPENAI_API_KEY", "sk-..."),
        ("OPENAI_API_KEY", "$KEY"),
    ],
)
def test_words_of_an_example_are_no_key(home, name, value):
    with pytest.raises(ConfigProblem, match=r"stands for .* Nothing was changed"):
        config.set_value(name, value)
    assert not config.get_env_path().exists()


@pytest.mark.parametrize("value", ["sk-or-v1-0123456789abcdef", "gsk_key0123456789", "none", ""])
def test_a_key_is_not_taken_for_a_word_of_an_example(home, value):
    config.set_value("OPENROUTER_API_KEY", value)
    assert config.env_value("OPENROUTER_API_KEY") == value


@pytest.mark.parametrize("value", ["   ", "sk-ab cd", "sk-abc\ndef", "sk-é☃", "sk-abc…def"])
def test_what_can_be_no_key_is_refused(home: Path, value: str) -> None:
    """H2: it would be refused by every server, with words that lead elsewhere."""
    with pytest.raises(ConfigProblem, match="Nothing was changed"):
        config.set_value("CUSTOM_API_KEY", value)
    config.set_value("CUSTOM_API_KEY", "")  # to take one out is something else
