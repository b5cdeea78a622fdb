"""What `register(ctx)` may call: tools and their override rules, commands, skills, tasks, and what is only kept."""

import asyncio
import json

import pytest

from hermes_cli import plugins
from hermes_cli.plugins import PluginContext, PluginManager, PluginManifest, PluginToolOverrideError
from tools.registry import registry

SCHEMA = {"description": "A tool of the tests.", "parameters": {"type": "object", "properties": {}}}


@pytest.fixture
def manager():
    return plugins.get_plugin_manager()


@pytest.fixture
def ctx(manager):
    return PluginContext(PluginManifest("mine", source="user"), manager)


def _other(manager, name="other"):
    return PluginContext(PluginManifest(name, source="user"), manager)


def _handler(args, **context):
    return json.dumps({"got": args, "context": sorted(context)})


# --- tools


def test_a_tool_reaches_the_registry(ctx, manager):
    ctx.register_tool("plugin_echo", "echoes", SCHEMA, _handler, emoji="x")
    (definition,) = registry.get_definitions({"plugin_echo"})
    assert definition["function"] == {**SCHEMA, "name": "plugin_echo"}
    assert manager._plugin_tool_names == {"plugin_echo"}
    assert json.loads(ctx.dispatch_tool("plugin_echo", {"a": 1})) == {"got": {"a": 1}, "context": []}
    assert plugins.get_plugin_toolsets() == [("echoes", "Echoes", "plugin_echo")]


def test_dispatch_passes_the_agent_of_the_terminal(ctx, manager):
    class Chat:
        agent = object()

    ctx.register_tool("plugin_echo", "echoes", SCHEMA, _handler)
    manager._cli_ref = Chat()
    assert json.loads(ctx.dispatch_tool("plugin_echo", {}, task_id="t"))["context"] == ["parent_agent", "task_id"]


@pytest.mark.parametrize("toolset", ["mine", "terminal"])
def test_a_built_in_tool_is_not_replaced(ctx, manager, toolset, caplog):
    before = registry.get_entry("terminal")
    assert before is not None
    ctx.register_tool("terminal", toolset, SCHEMA, _handler)
    assert registry.get_entry("terminal") is before
    assert manager._plugin_tool_names == set()
    assert "terminal" in caplog.text


def test_a_tool_of_another_plugins_toolset_is_refused(ctx, manager):
    ctx.register_tool("plugin_echo", "echoes", SCHEMA, _handler)
    _other(manager).register_tool("plugin_echo", "others", SCHEMA, print)
    assert registry.get_entry("plugin_echo").handler is _handler


def test_override_without_consent_raises(ctx):
    with pytest.raises(PluginToolOverrideError, match=r"plugins\.entries\.mine\.allow_tool_override"):
        ctx.register_tool("terminal", "mine", SCHEMA, _handler, override=True)


def test_override_with_consent_replaces_until_the_plugins_go(ctx, manager, configure):
    configure(plugins={"entries": {"mine": {"allow_tool_override": True}}})
    before = registry.get_entry("terminal")
    ctx.register_tool("terminal", "mine", SCHEMA, _handler, override=True)
    assert registry.get_entry("terminal").handler is _handler
    manager.clear()
    assert registry.get_entry("terminal") == before


def test_a_bundled_plugin_may_override(manager):
    bundled = PluginContext(PluginManifest("b", source="bundled"), manager)
    bundled.register_tool("terminal", "mine", SCHEMA, _handler, override=True)
    assert registry.get_entry("terminal").handler is _handler


def test_consent_must_be_true_itself(ctx, configure):
    configure(plugins={"entries": {"mine": {"allow_tool_override": "no"}}})
    with pytest.raises(PluginToolOverrideError):
        ctx.register_tool("terminal", "mine", SCHEMA, _handler, override=True)


# --- commands


@pytest.mark.parametrize("typed", ["/My Command", " my command ", "MY-COMMAND"])
def test_command_names_are_cleaned(ctx, manager, typed):
    ctx.register_command(typed, print, "says", "[TEXT]")
    facts = {"handler": print, "description": "says", "plugin": "mine", "args_hint": "[TEXT]"}
    assert manager._plugin_commands == {"my-command": facts}


@pytest.mark.parametrize("name", ["help", "/HELP", "reset", "", " / "])
def test_built_in_and_empty_commands_are_refused(ctx, manager, name, caplog):
    ctx.register_command(name, print)
    assert manager._plugin_commands == {}
    assert "refused" in caplog.text


def test_a_later_plugin_replaces_a_command(ctx, manager):
    ctx.register_command("same", print)
    _other(manager).register_command("same", repr)
    assert plugins.get_plugin_command_handler("same") is repr
    assert plugins.get_plugin_command_handler("unknown") is None


def test_the_result_of_a_command():
    async def answer():
        await asyncio.sleep(0)
        return "later"

    async def from_a_loop():
        return plugins.resolve_plugin_command_result(answer())

    assert plugins.resolve_plugin_command_result("now") == "now"
    assert plugins.resolve_plugin_command_result(answer()) == "later"
    assert asyncio.run(from_a_loop()) == "later"


def test_a_command_beside_a_loop_has_a_limit(monkeypatch):
    monkeypatch.setattr(plugins, "_WAIT_SECONDS", 0.05)

    async def from_a_loop():
        return plugins.resolve_plugin_command_result(asyncio.sleep(60))

    with pytest.raises(TimeoutError):
        asyncio.run(from_a_loop())


def test_a_failing_command_raises_in_the_caller():
    async def fail():
        raise KeyError("x")

    async def from_a_loop():
        return plugins.resolve_plugin_command_result(fail())

    with pytest.raises(KeyError):
        asyncio.run(from_a_loop())


def test_cli_commands_are_kept(ctx, manager):
    ctx.register_cli_command("mine", "do it", print, repr, "at length")
    assert manager._cli_commands["mine"] == {
        "name": "mine",
        "help": "do it",
        "description": "at length",
        "setup_fn": print,
        "handler_fn": repr,
        "plugin": "mine",
    }


# --- the rest


def test_skills(ctx, manager, tmp_path):
    ctx.register_skill("note-taking", tmp_path, "notes")
    assert manager.find_plugin_skill("mine:note-taking") == tmp_path
    assert manager.list_plugin_skills("mine") == ["note-taking"]
    manager.remove_plugin_skill("mine:note-taking")
    assert manager.find_plugin_skill("mine:note-taking") is None
    with pytest.raises(ValueError):
        ctx.register_skill("a b", tmp_path)
    with pytest.raises(FileNotFoundError):
        ctx.register_skill("gone", tmp_path / "gone")


def test_auxiliary_tasks(ctx, manager):
    ctx.register_auxiliary_task("rank", display_name="Rank", description="Ranks.", defaults={"timeout": 5})
    ctx.register_auxiliary_task("rank", display_name="Rank", description="Again.")
    (task,) = plugins.get_plugin_auxiliary_tasks()
    assert task["description"] == "Again."
    assert task["defaults"] == {
        "provider": "auto",
        "model": "",
        "base_url": "",
        "api_key": "",
        "timeout": 60,
        "extra_body": {},
    }
    for context, key in ((ctx, ""), (ctx, "a-b"), (ctx, "compression"), (_other(manager), "rank")):
        with pytest.raises(ValueError):
            context.register_auxiliary_task(key, display_name="x", description="x")


def test_settings_of_the_plugin(ctx, configure):
    configure(plugins={"entries": {"mine": {"settings": {"depth": 3}}}})
    assert ctx.get_config("depth") == 3
    assert ctx.get_config("width", 7) == 7


def test_messages_need_a_terminal(ctx, manager):
    class Chat:
        def __init__(self):
            self.said = []

        def submit(self, text):
            self.said.append(text)

    assert ctx.inject_message("hello") is False
    manager._cli_ref = Chat()
    assert ctx.inject_message("hello") is True
    assert ctx.inject_message("wake up", role="system") is True
    assert manager._cli_ref.said == ["hello", "[system] wake up"]


def test_what_is_not_used_yet_is_kept(ctx, manager, caplog):
    caplog.set_level("INFO")
    ctx.register_platform("gopher", "Gopher", dict, lambda: True, required_env=["GOPHER_HOST"], emoji="🐹")
    ctx.register_image_gen_provider("painter")
    ctx.register_secret_source("vault")
    ctx.register_memory_provider("memory")  # which is none, like the painter
    ctx.register_slack_action_handler("go", print)
    with pytest.raises(ValueError):
        ctx.register_slack_action_handler("", print)
    assert manager._offers["platform"][0].emoji == "🐹"
    assert manager._offers["secret_source"] == ["vault"]
    assert len([record for record in caplog.records if "does not use it yet" in record.message]) == 2
    assert not {"memory_provider", "image_gen_provider"} & set(manager._offers)
    assert ctx._plugin.kept == [("secret_source", "str"), ("slack_action_handler", "go")]
    manager.clear()


def test_counts_in_the_list(write_plugin, enable):
    write_plugin(
        "busy",
        """
        def register(ctx):
            ctx.register_tool("busy_tool", "busy", {"parameters": {}}, print)
            ctx.register_hook("post_llm_call", print)
            ctx.register_hook("no_such_hook", print)
            ctx.register_middleware("llm_request", print)
            ctx.register_middleware("no_such_kind", print)
            ctx.register_command("busy", print)
        """,
        {"version": 2, "description": "Works."},
    )
    (row,) = enable("busy").list_plugins()
    assert row == {
        "name": "busy",
        "key": "busy",
        "kind": "standalone",
        "version": "2",
        "description": "Works.",
        "source": "user",
        "enabled": True,
        "tools": 1,
        "hooks": 2,
        "middleware": 2,
        "commands": 1,
        "error": None,
    }


def test_two_managers_do_not_share_records(ctx):
    ctx.register_hook("post_llm_call", print)
    assert not PluginManager().has_hook("post_llm_call")
