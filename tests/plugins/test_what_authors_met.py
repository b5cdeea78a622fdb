"""What somebody met who wrote plugins after `docs/plugins.md` alone, done again as it was done (H11)."""

import json
import logging
import subprocess

import pytest

from agent.context_engine import ContextEngine, accepted_arguments
from agent.memory_manager import MemoryManager
from agent.memory_provider import MemoryProvider
from hermes_base.call_forms import read_call_form
from hermes_base.turn.tool_schemas import complete_schema, find_schema_fault
from hermes_cli import plugins, plugins_cmd
from hermes_cli.main import main as hermes
from hermes_cli.main import run as run_hermes
from run_agent.engines import add_engine_tools
from tools.registry import ToolRegistry, registry

OBJECT = {"type": "object", "properties": {}}
SCHEMA = {"description": "A tool of the tests.", "parameters": OBJECT}


# --- one whose register raises


HALF = """
    from agent.context_engine import ContextEngine
    from agent.tts_provider import TTSProvider

    class Engine(ContextEngine):
        name = "half"
        def update_from_response(self, usage): pass
        def should_compress(self, prompt_tokens=None): return False
        def compress(self, messages, current_tokens=None): return messages

    class Voice(TTSProvider):
        name = "half"
        def synthesize(self, text, output_path, **options): return output_path

    def register(ctx):
        schema = {"description": "x", "parameters": {"type": "object", "properties": {}}}
        ctx.register_tool("half_tool", "half", schema, lambda args, **_: "x")
        ctx.register_hook("pre_tool_call", lambda **_: {"action": "block", "message": "no"})
        ctx.register_middleware("tool_request", lambda **_: None)
        ctx.register_command("almost", lambda text: "x", "Almost.")
        ctx.register_command("shared", lambda text: "half", "Almost.")
        ctx.register_cli_command("almost", "Almost.", lambda parser: None, lambda args: None)
        ctx.register_context_engine(Engine())
        ctx.register_tts_provider(Voice())
        ctx.register_auxiliary_task("half", display_name="Half", description="x")
        raise RuntimeError("no luck today")
"""


def test_of_one_that_could_not_be_loaded_to_its_end_all_is_gone_when_it_is_disabled(
    write_plugin, enable, configure, capsys
):
    write_plugin("early", "def register(ctx): ctx.register_command('shared', lambda text: 'early', 'Mine.')")
    write_plugin("half", HALF)
    manager = enable("early", "half")
    assert manager._plugins["half"].error == "no luck today"
    plugins_cmd.main(["info", "half"])
    told = capsys.readouterr().out
    assert "Registered:" in told
    assert "Last error: no luck today\nWhat it registered before that works, until it is disabled." in told
    configure(plugins={"enabled": ["early"]})
    manager.follow_settings()
    assert registry.get_entry("half_tool") is None
    assert (manager._hooks, manager._middleware, manager._cli_commands, manager._aux_tasks) == ({}, {}, {}, {})
    assert plugins.get_plugin_context_engine() is None
    assert plugins.find_offers("tts_provider") == []
    assert list(plugins.get_plugin_commands()) == ["shared"]
    assert plugins.get_plugin_command_handler("shared")("") == "early"  # what it took is given back


def test_what_a_command_displaced_comes_back_when_its_plugin_goes(write_plugin, enable, configure):
    for name in ("a", "b", "c"):
        write_plugin(name, f"def register(ctx): ctx.register_command('shared', lambda text: {name!r}, 'Mine.')")
    manager = enable("a", "b", "c")
    assert plugins.get_plugin_command_handler("shared")("") == "c"
    configure(plugins={"enabled": ["a", "c"]})
    manager.follow_settings()
    assert plugins.get_plugin_command_handler("shared")("") == "c"
    configure(plugins={"enabled": ["a"]})
    manager.follow_settings()
    assert plugins.get_plugin_command_handler("shared")("") == "a"


# --- tools that no provider takes


@pytest.mark.parametrize(
    ("name", "schema", "words"),
    [
        ("odd tool!", SCHEMA, "'odd tool!' is no name for a tool"),
        ("n" * 65, SCHEMA, "is no name for a tool"),
        ("", SCHEMA, "is no name for a tool"),
        (7, SCHEMA, "7 is no name for a tool"),
        ("t", None, "its schema is NoneType and no object"),
        ("t", {"description": 5}, "its description is no text"),
        ("t", {"parameters": "none"}, "its parameters are str and no JSON schema of an object"),
        ("t", {"parameters": None}, "its parameters are NoneType"),
        ("t", {"parameters": {"type": "string"}}, "of the type 'string'"),
        ("t", {"parameters": {"properties": ["text"]}}, "its properties are no object"),
        ("t", {"parameters": {"properties": {"text": "string"}}}, "its properties are no object of schemas"),
        ("t", {"parameters": {"required": "text"}}, "what it requires is no list of names"),
        ("t", {"parameters": {"properties": {"text": {"enum": {1, 2}}}}}, "cannot be written as JSON"),
        ("Good-tool_1", SCHEMA, ""),
        ("t", {}, ""),
    ],
)
def test_a_tool_is_judged_before_a_model_is_offered_it(name, schema, words):
    assert words in find_schema_fault(name, schema)
    assert bool(find_schema_fault(name, schema)) == bool(words)


def test_a_bad_tool_is_refused_named_and_told(write_plugin, enable, capsys):
    code = f"""
    def register(ctx):
        ctx.register_tool("odd tool!", "x", {SCHEMA!r}, lambda args, **_: "x")
        ctx.register_tool("none_tool", "x", {{"parameters": "none"}}, lambda args, **_: "x")
        ctx.register_tool("good_tool", "x", {SCHEMA!r}, lambda args, **_: "x")
    """
    write_plugin("odd", code, {"provides_tools": ["odd tool!", "none_tool", "good_tool"]})
    manager = enable("odd")
    assert manager._plugins["odd"].tools_registered == ["good_tool"]
    plugins_cmd.main(["info", "odd"])
    told = capsys.readouterr().out
    assert "tool: odd tool!: refused: 'odd tool!' is no name for a tool" in told
    assert "tool: none_tool: refused: its parameters are str" in told
    assert "did not register it" not in told
    assert told.count("odd tool!") == 2
    plugins_cmd.main(["list", "--json"])
    (row,) = json.loads(capsys.readouterr().out)
    assert len(row["refused"]) == 2
    assert row["not_used"] == []


def test_whoever_goes_to_the_registry_itself_is_judged_too(caplog):
    own = ToolRegistry()
    assert own.register("odd tool!", "x", SCHEMA, print) is False
    assert own.names() == []
    assert "'odd tool!' is no name for a tool" in caplog.text


def test_parameters_that_do_not_say_what_they_are_are_an_object():
    own = ToolRegistry()
    own.register("bare", "x", {"parameters": {}}, print)
    assert own.get_definitions({"bare"})[0]["function"]["parameters"] == OBJECT
    assert complete_schema(SCHEMA) == SCHEMA


class Remembers(MemoryProvider):
    name = "remembers"

    def is_available(self):
        return True

    def initialize(self, session_id, **kwargs):
        pass

    def get_tool_schemas(self):
        return [{"name": "odd tool!"}, {"name": "good_tool", "parameters": {}}]


class Shortens(ContextEngine):
    """As the documents show it: what it is told and does not name is handed on."""

    name = "shortens"

    def update_from_response(self, usage):
        pass

    def should_compress(self, prompt_tokens=None):
        return False

    def compress(self, messages, current_tokens=None):
        return messages

    def get_tool_schemas(self):
        return Remembers().get_tool_schemas()

    def update_model(self, model, context_length, **facts):
        super().update_model(model, context_length, **facts)


def test_tools_of_memories_and_engines_are_judged_alike(caplog):
    memory = MemoryManager()
    memory.add_provider(Remembers())
    assert [schema["name"] for schema in memory.get_all_tool_schemas()] == ["good_tool"]
    assert "memory provider remembers: the tool odd tool! is left out" in caplog.text
    offered, own = add_engine_tools([], Shortens())
    assert (own, offered[0]["function"]["parameters"]) == ({"good_tool"}, OBJECT)
    assert "context engine shortens: its tool odd tool! is left out" in caplog.text


# --- catch-alls, and what is handed on


def test_the_name_of_a_catch_all_is_no_wish():
    given = {"task_id": "t", "session_id": "s", "context": object()}
    for handler in (lambda args, **context: sorted(context), lambda args, **facts: sorted(facts)):
        own = ToolRegistry()
        own.register("t", "x", SCHEMA, lambda args, handler=handler, **_: json.dumps(handler(args, **_)))
        assert json.loads(own.dispatch("t", {}, **given)) == ["session_id", "task_id"]
    own.register("u", "x", SCHEMA, lambda args, **context: json.dumps(sorted(context)))
    assert json.loads(own.dispatch("u", {}, **given)) == ["session_id", "task_id"]
    own.register("v", "x", SCHEMA, lambda args, *, context: json.dumps(context is given["context"]))
    assert own.dispatch("v", {}, **given) == "true"


def test_no_call_of_others_gets_what_it_only_seems_to_name():
    def takes(first, /, named, *messages, only=None):
        """`messages` and `first` cannot be given by name."""

    form = read_call_form(takes)
    assert form.named == {"named", "only"}
    assert accepted_arguments(takes, {"first": 1, "named": 2, "messages": 3, "only": 4}) == {"named": 2, "only": 4}


def test_an_engine_may_hand_on_what_it_is_told():
    engine = Shortens()
    facts = {"model": "m", "context_length": 1000, "provider": "p", "max_tokens": 7, "of_another_year": True}
    engine.update_model(**accepted_arguments(engine.update_model, facts))
    assert (engine.context_length, engine.threshold_tokens) == (1000, 750)


# --- commands


def test_a_command_of_the_terminal_is_awaited_and_what_it_gives_back_is_nobodys(write_plugin, configure, capsys):
    code = """
    async def later(args):
        print("later")
        return 5
    def register(ctx):
        def add(name, handler):
            ctx.register_cli_command(name, "Try.", lambda parser: None, handler)
        add("later", later)
        add("seven", lambda args: 7)
        add("yes", lambda args: True)
        add("text", lambda args: "done")
        add("crash", lambda args: 1 / 0)
        def leave(args):
            raise SystemExit("not today")
        add("leave", leave)
    """
    write_plugin("p", code)
    configure(plugins={"enabled": ["p"]})
    assert [run_hermes([name]) for name in ("later", "seven", "yes", "text")] == [0, 0, 0, 0]
    assert capsys.readouterr().out == "later\n"
    assert hermes(["leave"]) == 1
    assert capsys.readouterr().err == "not today\n"


def test_a_command_of_the_terminal_that_breaks_off_says_whose_it_is(write_plugin, configure, home, capsys):
    setup = "def setup(parser): raise KeyError('no parser')\n"
    add = "ctx.register_cli_command"
    register = f"def register(ctx):\n    {add}('crash', 'x', print, lambda args: 1 / 0)\n    {add}('odd', 'x', setup)\n"
    write_plugin("p", setup + register)
    configure(plugins={"enabled": ["p"]})
    capsys.readouterr()
    for name, what in (("crash", "ZeroDivisionError: division by zero"), ("odd", "KeyError: 'no parser'")):
        assert hermes([name]) == 1
        told = capsys.readouterr().err
        assert f"The command {name} of the plugin p failed ({what}). The whole trace is in " in told
    traces = [path.read_text() for path in (home / "logs").glob("crash-*.txt")]
    assert any("Traceback" in trace for trace in traces)


# --- memories, and the first steps


def test_a_memory_that_is_chosen_is_told_what_disabling_means(write_plugin, configure, home, capsys):
    write_plugin("diary", "def register(ctx): ctx.register_memory_provider(None)", {"kind": "exclusive"})
    configure(memory={"provider": "diary"})
    assert plugins_cmd.main(["disable", "diary"]) == 0
    told = capsys.readouterr().out
    assert "diary goes on as the memory: memory.provider names it, and that alone counts." in told
    assert "is disabled" not in told


@pytest.mark.slow
def test_a_new_plugin_with_a_dash_and_files_of_its_own_can_be_tested_as_it_says(tmp_path, monkeypatch, home, capsys):
    """H11"""
    monkeypatch.chdir(tmp_path)
    assert plugins_cmd.main(["new", "word-count", "--kind", "tool"]) == 0
    line = next(line for line in capsys.readouterr().out.splitlines() if line.strip().startswith("test it"))
    code = tmp_path / "word-count/__init__.py"
    code.write_text("from .store import KEPT  # noqa: F401\n" + code.read_text())
    (tmp_path / "word-count/store.py").write_text("KEPT = 1\n")
    done = subprocess.run([*line.split()[2:], "-p", "no:cacheprovider"], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.fixture(autouse=True)
def _hear_all(caplog):
    caplog.set_level(logging.INFO)
