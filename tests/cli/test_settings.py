"""The table of settings: defaults, kinds, suggestions, and what is said about a value that does not fit."""

import json
from dataclasses import FrozenInstanceError, replace
from operator import attrgetter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hermes_base import setting_table as table
from hermes_base.errors import ConfigProblem
from hermes_base.settings import Settings

BY_KEY = {row.key: row for row in table.SETTINGS}


@pytest.mark.parametrize("row", table.SETTINGS, ids=lambda row: row.key)
def test_each_row_is_complete_and_its_default_passes_its_own_check(row: table.Setting) -> None:
    assert row.doc.endswith(".")
    assert row.takes_effect
    assert table.check_value(row, row.default) == []
    assert table.find(row.key) is row


def test_defaults_are_fresh_each_time() -> None:
    table.defaults()["agent"]["toolsets"].append("x")
    assert table.defaults()["agent"]["toolsets"] == ["hermes-cli"]
    assert list(table.check(table.defaults())) == []


def test_a_mapping_is_read_over_the_defaults() -> None:
    """H2: the class is the table; what is not said, or said as null, is the default, and nobody changes it."""
    empty = table.read_settings({})
    assert empty == Settings() == table.read_settings(table.defaults())
    assert all(attrgetter(row.key)(empty) == freeze(row.default) for row in table.SETTINGS)
    platforms = {"chat": {"enabled": True}}
    config = {"terminal": {"timeout": 7, "env": ["A"]}, "log": None, "platforms": platforms, "mine": {"x": 1}}
    found = table.read_settings(config)
    assert found.terminal == replace(empty.terminal, timeout=7, env=("A",))
    assert (found.log, found.platforms) == (empty.log, platforms)
    assert found.foreign == {"platforms.chat.enabled": True, "mine.x": 1}
    with pytest.raises(FrozenInstanceError):
        found.terminal.timeout = 8  # type: ignore[misc]


def test_a_mapping_that_does_not_fit_is_refused_with_the_first_sentence() -> None:
    """H8."""
    with pytest.raises(ConfigProblem, match=r"terminal\.timeout is 0, but it must be at least 1\. `hermes"):
        table.read_settings({"terminal": {"timeout": 0}, "agent": 3})


def freeze(value: object) -> object:
    return tuple(value) if isinstance(value, list) else value


@pytest.mark.parametrize(
    ("typed", "meant"),
    [
        ("model.defualt", "model.default"),
        ("Model.Default", "model.default"),
        ("compression.treshold", "compression.threshold"),
        ("max_iterations", "agent.max_iterations"),
        ("zzzzzz", "hermes config list"),
    ],
)
def test_a_misspelt_key_finds_its_neighbour(typed: str, meant: str) -> None:
    """H2."""
    assert meant in table.suggest(typed)


@pytest.mark.parametrize(
    ("config", "words"),
    [
        ({"model": {"default": 4}}, ("model.default", "quotes")),
        ({"model": "gpt"}, ("model", "section", "model.default")),
        ({"model": {"api_mode": "soap"}}, ("model.api_mode", "chat_completions")),
        ({"model": {"context_length": "big"}}, ("model.context_length", "whole number or null")),
        ({"agent": {"max_iterations": True}}, ("agent.max_iterations", "whole number")),
        ({"agent": {"max_iterations": 0}}, ("agent.max_iterations", "at least 1")),
        ({"agent": {"toolsets": "web"}}, ("agent.toolsets", "list of names")),
        ({"agent": {"toolsets": ["web", 1]}}, ("agent.toolsets", "list of names")),
        ({"compression": {"enabled": "yes"}}, ("compression.enabled", "true or false")),
        ({"compression": {"threshold": 50}}, ("compression.threshold", "at most 1")),
        ({"compression": {"threshold": float("nan")}}, ("compression.threshold", "a number")),
        ({"gateway": {"silence_minutes": 10**400}}, ("gateway.silence_minutes", "a number")),
        ({"model": {"fallbacks": ["x"]}}, ("model.fallbacks", "list of entries")),
        ({"model": {"fallbacks": [{"model": 5}]}}, ("model.fallbacks[0].model", "text")),
        ({"model": {"fallbacks": [{"api_mode": "soap"}]}}, ("model.fallbacks[0].api_mode", "chat_completions")),
        ({"plugins": {"entries": 3}}, ("plugins.entries", "section")),
    ],
)
def test_a_value_that_does_not_fit_is_an_error_with_a_fix(config: dict[str, object], words: tuple[str, ...]) -> None:
    """H2, H8."""
    (problem,) = table.check(config)
    assert not problem.warning
    assert problem.fix
    for word in words:
        assert word in str(problem)


def test_unknown_keys_are_warnings_and_owned_sections_are_not() -> None:
    """H2: other programs and plugins own keys in the same file."""
    config = {
        "plugins": {"entries": {"lcm": {"llm": {"x": 1}}}, "enabled": ["a"]},
        "memory": {"mem0": {"user": "me"}, "provider": "mem0"},
        "auxiliary": {"compression": {"model": "small"}},
        "providers": {"mine": {"base_url": "http://x"}},
        "model": {"defalt": "x", "fallbacks": [{"model": "m", "colour": 1}]},
        "other": {"deep": {"er": 1}},
        7: "number",
    }
    problems = list(table.check(config))
    assert {problem.key for problem in problems} == {"model.defalt", "model.fallbacks[0].colour", "other", "7"}
    assert all(problem.warning for problem in problems)
    assert "model.default" in next(problem.fix for problem in problems if problem.key == "model.defalt")


def test_an_empty_section_and_a_null_stand_for_the_defaults() -> None:
    assert list(table.check({"model": None, "agent": {"max_iterations": None}})) == []


@pytest.mark.parametrize(
    ("key", "text", "value"),
    [
        ("model.default", "3", "3"),
        ("model.default", "", ""),
        ("model.context_length", "null", None),
        ("model.context_length", "8192", 8192),
        ("compression.threshold", "0.25", 0.25),
        ("compression.threshold", "1", 1),
        ("display.markdown", "Off", False),
        ("display.markdown", "true", True),
        ("display.tool_progress", "off", "off"),
        ("plugins.enabled", "a, b", ["a", "b"]),
        ("plugins.enabled", "", []),
        ("plugins.enabled", '["a"]', ["a"]),
        ("model.fallbacks", '[{"model": "m"}]', [{"model": "m"}]),
    ],
)
def test_text_becomes_a_value_of_the_settings_kind(key: str, text: str, value: object) -> None:
    assert table.coerce(BY_KEY[key], text) == value


@pytest.mark.parametrize(
    ("key", "text"),
    [
        ("agent.max_iterations", "many"),
        ("agent.max_iterations", "1.5"),
        ("agent.max_iterations", "true"),
        ("agent.max_iterations", "null"),
        ("compression.threshold", "NaN"),
        ("display.markdown", "perhaps"),
        ("approvals.mode", "never"),
        ("plugins.enabled", "[1]"),
        ("model.fallbacks", "a,b"),
        ("plugins.enabled", "[broken"),
    ],
)
def test_text_that_does_not_fit_is_refused_in_a_sentence(key: str, text: str) -> None:
    """H8."""
    with pytest.raises(ValueError, match="must be"):
        table.coerce(BY_KEY[key], text)


@given(st.sampled_from(table.SETTINGS), st.text(max_size=30))
def test_any_text_is_coerced_to_a_value_that_passes_the_check_or_refused(row: table.Setting, text: str) -> None:
    refused = ""
    try:
        value = table.coerce(row, text)
    except ValueError as error:
        refused = str(error)
    assert row.key in refused or not [item for item in table.check_value(row, value) if not item.warning]


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=8,
)
SECTIONS = st.sampled_from([*{row.key.split(".")[0] for row in table.SETTINGS}, "providers", "x"])
NAMES = st.sampled_from([*{row.key.split(".")[1] for row in table.SETTINGS}, "entries", "x"])


@given(st.dictionaries(SECTIONS, JSON | st.dictionaries(NAMES, JSON, max_size=4), max_size=4))
def test_checking_never_breaks_whatever_the_file_holds(config: dict[str, object]) -> None:
    for problem in table.check(config):
        assert str(problem)
        json.dumps(problem.what)
