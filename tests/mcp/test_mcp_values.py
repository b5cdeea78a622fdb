"""What is decided without a server: the section of the settings, names, schemas (G13)."""

import json
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hermes_base.errors import ConfigProblem
from hermes_base.secret_files import find_server_secrets
from hermes_base.setting_table import check, is_secret, read_settings
from tools.mcp.mcp_names import LONGEST, make_name
from tools.mcp.mcp_schemas import DEEPEST, SCHEMA_BYTES, find_renamed, repair_schema
from tools.mcp.mcp_specs import HTTP, SSE, STDIO, expand, find_opened, read_server, read_servers

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(
            st.sampled_from(
                [
                    "type",
                    "properties",
                    "items",
                    "anyOf",
                    "allOf",
                    "oneOf",
                    "$ref",
                    "required",
                    "enum",
                    "const",
                    "a",
                    "ä b",
                ]
            ),
            inner,
            max_size=5,
        )
    ),
    max_leaves=40,
)


# --- the section


def test_the_shape_that_others_write_is_read() -> None:
    spec = read_server(
        "files",
        {
            "command": "npx",
            "args": ["-y", "server", 5],
            "env": {"A": "${TOKEN}", "N": 1, "B": True},
            "timeout": 5,
            "type": "stdio",
        },
    )
    assert (spec.transport, spec.command, spec.args) == (STDIO, "npx", ("-y", "server", "5"))
    assert spec.env == {"A": "${TOKEN}", "N": "1", "B": "true"}
    assert (spec.timeout, spec.trust, spec.level, spec.enabled, spec.sampling) == (5.0, False, "work", True, 0)
    assert read_server("r", {"url": "https://x.example/mcp"}).transport == HTTP
    assert read_server("r", {"url": "https://x.example/sse", "type": "sse"}).transport == SSE
    assert read_server("r", {"url": "https://x.example", "transport": "streamable-http"}).transport == HTTP
    assert not read_server("r", {"url": "https://x.example", "disabled": True}).enabled


@pytest.mark.parametrize(
    ("entry", "words"),
    [
        (None, "must be a section"),
        ("npx", "must be a section"),
        ({}, "neither a command nor a url"),
        ({"command": "a", "url": "http://x"}, "both a command and a url"),
        ({"command": 5}, "command must be text"),
        ({"command": "a", "args": "b c"}, "args must be a list"),
        ({"command": "a", "env": ["A=1"]}, "env must be a section"),
        ({"command": "a", "env": {"A": {}}}, "env must be a section"),
        ({"command": "a", "level": "look"}, "work, setup, outside"),
        ({"command": "a", "cwd": "here"}, "whole path"),
        ({"command": "a", "timeout": 0}, "number of seconds"),
        ({"command": "a", "timeout": True}, "number of seconds"),
        ({"command": "a", "timeout": 1e9}, "number of seconds"),
        ({"command": "a", "transport": "http"}, "does not go with a command"),
        ({"url": "http://x", "transport": "stdio"}, "does not go with a url"),
        ({"url": "file:///etc/passwd"}, "http://"),
        ({"url": "http://x", "transport": "ws"}, "stdio, http or sse"),
        ({"command": "a", "enabled": "yes"}, "true or false"),
        ({"command": "a", "tools": "add"}, "list of texts"),
        ({"command": "a", "trust": "yes"}, "list of texts"),
        ({"command": "a", "network": "no"}, "true or false"),
        ({"command": "a", "sampling": -1}, "number of tokens"),
        ({"command": "a", "timeout": 60_000}, "write 60"),
        ({"url": "https://[::1/mcp"}, "http://"),
        ({"url": "https://x.example:99999/mcp"}, "http://"),
        ({"url": "http://x", "headers": {"A": "secret\nB: c"}}, "cannot be sent"),
        ({"url": "http://x", "headers": {"A": "ключ"}}, "cannot be sent"),
        ({"url": "http://x", "headers": {"A b": "c"}}, "name of a header"),
    ],
)
def test_what_is_no_server_is_a_sentence(entry: Any, words: str) -> None:
    with pytest.raises(ConfigProblem, match=words):
        read_server("x", entry)
    specs, faults = read_servers({"x": entry, "good": {"command": "a"}})
    assert [spec.name for spec in specs] == ["good"], "one that is wrong takes no other with it"
    assert [fault.server for fault in faults] == ["x"]


@pytest.mark.parametrize(
    ("entry", "same"),
    [
        ({"serverUrl": "https://x.example/mcp"}, {"url": "https://x.example/mcp"}),
        ({"httpUrl": "https://x.example/mcp"}, {"url": "https://x.example/mcp"}),
        ({"type": "remote", "url": "https://x.example"}, {"type": "http", "url": "https://x.example"}),
        ({"type": "streamableHTTP", "url": "https://x.example"}, {"type": "http", "url": "https://x.example"}),
        ({"type": "STDIO", "command": "a"}, {"type": "stdio", "command": "a"}),
        (
            {"type": "local", "command": ["npx", "-y", "a"], "environment": {"A": "b"}},
            {"command": "npx", "args": ["-y", "a"], "env": {"A": "b"}},
        ),
        ({"command": "a", "autoApprove": ["b"], "alwaysAllow": ["c"]}, {"command": "a"}),
    ],
)
def test_the_words_of_other_programs_are_understood(entry: Any, same: Any) -> None:
    assert replace(read_server("x", entry), guessed=False) == replace(read_server("x", same), guessed=False)


def test_the_section_by_the_name_of_others_is_not_lost_without_a_word() -> None:
    """H2"""
    (problem,) = check({"mcpServers": {"x": {"command": "a"}}})
    assert problem.warning
    assert problem.fix == "Did you mean mcp_servers?"


def test_what_others_let_be_called_unasked_asks_here_and_says_how() -> None:
    """G4: a word of another program is none of the owner's here."""
    specs, faults = read_servers({"x": {"command": "a", "autoApprove": ["b"], "envFile": "c"}})
    assert not specs[0].trusts("b")
    assert "`trust`" in faults[0].what
    assert "`env`" in faults[0].what


def test_odd_keys_and_names_are_told() -> None:
    _, faults = read_servers({"x": {"command": "a", "comand": "b"}})
    assert "comand" in faults[0].what
    assert not faults[0].fatal
    assert "cannot be the name" in read_servers({"../x": {"command": "a"}})[1][0].what
    assert read_servers([1])[1][0].fatal


def test_variables_are_filled_in() -> None:
    known = {"A": "1", "EMPTY": ""}.get
    assert expand("${A}-${B:-2}-${EMPTY:-3}-$A", lambda name: known(name, ""), "x") == "1-2-3-$A"
    assert expand("${env:A} ${env:B:-2}", lambda name: known(name, ""), "x") == "1 2"
    for text in ("Bearer ${input:key}", "${command:x}", "${config:a.b}"):
        with pytest.raises(ConfigProblem, match="only an editor fills in"):
            expand(text, lambda name: "1", "x")
    with pytest.raises(ConfigProblem, match="x needs B"):
        expand("${B}", lambda name: "", "x")


def test_paths_among_the_arguments_are_what_the_owner_opened() -> None:
    spec = read_server("x", {"command": "srv", "args": ["/data/docs", "--root=/data/more", "-v", "not/whole"]})
    assert list(find_opened(spec)) == ["/data/docs", "/data/more"]


def test_the_section_is_known_to_the_settings_and_its_secrets_are_secrets() -> None:
    """G6: headers and variables of servers are never shown, whatever they are called."""
    section = {"mcp_servers": {"x": {"url": "http://x", "headers": {"Authorization": "Bearer y"}}}}
    assert list(check(section)) == []
    assert read_settings(section).mcp_servers["x"]["url"] == "http://x"
    for key in (
        "x.headers.Authorization",
        "x.headers.X-Api-Key",
        "x.env.LOG_LEVEL",
        "x.environment.A",
        "a.b.headers.Cookie",
    ):
        assert is_secret(f"mcp_servers.{key}")
    for key in ("x.headers.Accept", "x.headers.Content-Type", "x.url", "x.command"):
        assert not is_secret(f"mcp_servers.{key}")


def test_a_token_in_a_command_that_is_a_list_is_a_secret() -> None:
    """G6"""
    section = {"x": {"type": "local", "command": ["npx", "a", "--api-key", "k-123", "--token=t-456"]}}
    assert {value for _, value in find_server_secrets(section)} >= {"k-123", "t-456"}


# --- names


def test_names_are_plain_where_they_can_be() -> None:
    assert make_name("github", "create_issue") == "mcp_github_create_issue"
    assert make_name("my_server", "tool") == "mcp_my__server_tool"


@given(st.tuples(st.text(min_size=1), st.text(min_size=1)), st.tuples(st.text(min_size=1), st.text(min_size=1)))
def test_two_tools_never_have_one_name(first: tuple[str, str], second: tuple[str, str]) -> None:
    names = make_name(*first), make_name(*second)
    assert (names[0] == names[1]) == (first == second)
    for name in names:
        assert len(name) <= LONGEST
        assert name.startswith("mcp_")
        assert name.replace("_", "").replace("-", "").isalnum()
        assert name.isascii()


@given(st.text("ab_-", min_size=1, max_size=6), st.text("ab_-", min_size=1, max_size=6))
def test_underscores_do_not_move_from_server_to_tool(server: str, tool: str) -> None:
    others = [(f"{server}_{tool[:n]}", tool[n:]) for n in range(1, len(tool))]
    assert make_name(server, tool) not in [make_name(*other) for other in others]


# --- schemas


def test_what_a_schema_says_is_kept() -> None:
    given_schema = {
        "$schema": "http://json-schema.org/draft-07/schema#",
        "type": "object",
        "properties": {
            "path": {"type": "string", "description": "Where."},
            "mode": {"enum": ["a", "b"], "type": "string", "default": "a"},
            "count": {"type": ["integer", "null"], "minimum": 1},
            "rows": {"type": "array", "items": {"$ref": "#/$defs/Row"}},
            "any": {"anyOf": [{"type": "string"}, {"type": "null"}]},
            "either": {"oneOf": [{"type": "string"}, {"type": "integer"}]},
        },
        "required": ["path", "missing", 5, "path"],
        "additionalProperties": False,
        "$defs": {"Row": {"type": "object", "properties": {"n": {"type": "number"}}, "required": ["n"]}},
    }
    assert repair_schema(given_schema) == {
        "type": "object",
        "properties": {
            "path": {"type": "string", "description": "Where."},
            "mode": {"type": "string", "enum": ["a", "b"], "default": "a"},
            "count": {"type": "integer", "minimum": 1},
            "rows": {
                "type": "array",
                "items": {"type": "object", "properties": {"n": {"type": "number"}}, "required": ["n"]},
            },
            "any": {"type": "string"},
            "either": {"anyOf": [{"type": "string"}, {"type": "integer"}]},
        },
        "required": ["path"],
    }


def test_a_union_at_the_top_is_one_object() -> None:
    union = {
        "anyOf": [
            {"properties": {"a": {"type": "string"}}, "required": ["a"]},
            {"properties": {"b": {"type": "string"}}, "required": ["b"]},
        ]
    }
    assert repair_schema(union) == {
        "type": "object",
        "properties": {"a": {"type": "string"}, "b": {"type": "string"}},
    }
    both = {"allOf": union["anyOf"]}
    assert repair_schema(both)["required"] == ["a", "b"]


def test_parameters_with_odd_names_are_renamed_and_found_again() -> None:
    schema = {"type": "object", "properties": {"user name": {"type": "string"}}, "required": ["user name"]}
    repaired = repair_schema(schema)
    assert repaired["required"] == ["user_name"]
    assert find_renamed(repaired, schema) == {"user_name": "user name"}


def test_a_schema_that_is_too_large_keeps_its_names() -> None:
    fields = {f"field_{n}": {"type": "string", "description": "long " * 40} for n in range(50)}
    repaired = repair_schema({"type": "object", "properties": fields, "required": ["field_1"]})
    assert len(json.dumps(repaired)) <= SCHEMA_BYTES
    assert len(repaired["properties"]) == 50
    assert repaired["required"] == ["field_1"]


@given(JSON)
def test_whatever_comes_is_a_schema_that_every_provider_takes(value: Any) -> None:
    repaired = repair_schema(value)
    assert repaired["type"] == "object"
    assert set(repaired) <= {"type", "properties", "required"}
    assert set(repaired.get("required", ())) <= set(repaired["properties"])
    text = json.dumps(repaired)
    assert "$ref" not in [key for inner in _walk(repaired) for key in inner]
    assert max(_depths(repaired)) <= 2 * DEEPEST + 4
    assert len(text) <= SCHEMA_BYTES * 2


def _walk(schema: Any) -> list[dict[str, Any]]:
    """Every schema in a schema."""
    if not isinstance(schema, dict):
        return []
    inner = [*schema.get("properties", {}).values(), schema.get("items"), *schema.get("anyOf", ())]
    return [schema, *(found for one in inner for found in _walk(one))]


def _depths(value: Any, depth: int = 0) -> list[int]:
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return [depth, *(one for each in inner for one in _depths(each, depth + 1))]
