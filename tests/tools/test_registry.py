"""The registry: fixed order, a generation for every change, errors as data."""

import json
from typing import Any

import pytest

import model_tools
from tools.interrupt import is_interrupted
from tools.registry import ToolRegistry, registry, tool_error, tool_result

SCHEMA: dict[str, Any] = {"description": "d", "parameters": {"type": "object", "properties": {}}}


def test_definitions_are_sorted_and_leave_out_what_cannot_be_used() -> None:
    """A5"""
    tools = ToolRegistry()
    for name, check in (("b", None), ("a", None), ("c", lambda: False), ("d", lambda: 1 / 0)):
        tools.register(name, "set", SCHEMA, lambda args: "x", check_fn=check)
    assert [tool["function"]["name"] for tool in tools.get_definitions({"d", "c", "b", "a", "z"})] == ["a", "b"]
    assert tools.generation == 4


def test_a_name_of_another_toolset_is_refused_unless_overridden() -> None:
    tools = ToolRegistry()
    assert tools.register("a", "one", SCHEMA, lambda args: "one")
    assert not tools.register("a", "two", SCHEMA, lambda args: "two")
    assert tools.dispatch("a", {}) == "one"
    assert tools.register("a", "two", SCHEMA, lambda args: "two", override=True)
    assert tools.dispatch("a", {}) == "two"
    assert tools.deregister("a")
    assert not tools.deregister("a")


@pytest.mark.parametrize(
    ("handler", "said"),
    [
        (lambda args: {"not": "text"}, "tool_result_contract"),
        (lambda args: None, "tool_result_contract"),
        (lambda args: args["missing"], "KeyError"),
    ],
)
def test_errors_are_data(handler: Any, said: str) -> None:
    tools = ToolRegistry()
    tools.register("a", "set", SCHEMA, handler)
    assert said in tools.dispatch("a", {})
    assert "error" in json.loads(tools.dispatch("nothing", {}))


def test_handlers_get_only_the_context_they_take() -> None:
    tools = ToolRegistry()
    tools.register("few", "set", SCHEMA, lambda args, task_id="": task_id)
    tools.register("all", "set", SCHEMA, lambda args, **context: ",".join(sorted(context)))
    assert tools.dispatch("few", {}, task_id="t", folder="f") == "t"
    assert tools.dispatch("all", {}, task_id="t", folder="f") == "folder,task_id"


def test_a_coroutine_is_run_to_its_end() -> None:
    async def slow(args: dict[str, Any]) -> str:
        return "done"

    registry.register("slow", "set", SCHEMA, slow, is_async=True)
    try:
        assert model_tools.handle_function_call("slow", "{}") == "done"
    finally:
        registry.deregister("slow")


def test_arguments_as_text_and_bad_ones() -> None:
    assert "not valid JSON" in model_tools.handle_function_call("terminal", "{")
    assert "must be a JSON object" in model_tools.handle_function_call("terminal", "[1]")


def test_renderings_are_shared_until_the_registry_changes() -> None:
    one = model_tools.get_tool_definitions(["terminal"])
    assert model_tools.get_tool_definitions(["terminal"]) is one
    registry.register("new", "another", SCHEMA, lambda args: "x")
    try:
        assert model_tools.get_tool_definitions(["terminal"]) == one
        assert model_tools.get_tool_definitions(["terminal"]) is not one
    finally:
        registry.deregister("new")
    assert model_tools.check_toolset_requirements()["terminal"] is True


def test_small_helpers() -> None:
    assert json.loads(tool_error("no", code=3)) == {"error": "no", "code": 3}
    assert json.loads(tool_result({"a": 1}, b=2)) == {"a": 1, "b": 2}
    assert is_interrupted() is False
