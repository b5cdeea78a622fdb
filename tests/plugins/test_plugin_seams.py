"""What a plugin reaches without a turn: built-in tools, the owner's model, subcommands, skills, the terminal's chat."""

import json

import pytest

import model_tools
from agent.auxiliary_client import call_llm
from agent.plugin_llm import PluginLlm, PluginLlmTextInput, PluginLlmTrustError
from hermes_base.chat import Answer
from hermes_base.turn.cancel import CancelToken
from hermes_base.turn.journal import Row
from hermes_base.turn.tool_context import ToolContext
from hermes_base.turn.turn_context import TurnContext, current_turn
from hermes_cli import plugins
from hermes_cli.main import main
from hermes_cli.plugins import PluginContext, PluginManifest
from hermes_constants import STORE_FILE
from hermes_state.sql.store_sql import Store
from hermes_state.store import NewSession
from tools.approval import ask_approval


@pytest.fixture
def ctx():
    return PluginContext(PluginManifest("mine"), plugins.get_plugin_manager())


# --- tools without a turn


def test_built_in_tools_run_without_a_session(ctx, home, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "note.txt").write_text("milk and honey")
    assert "milk" in ctx.dispatch_tool("read_file", {"path": "note.txt"})
    assert "note.txt" in ctx.dispatch_tool("search_files", {"pattern": "honey"})
    assert json.loads(ctx.dispatch_tool("terminal", {"command": "cat note.txt"}))["output"] == "milk and honey"
    assert "skills" in json.loads(ctx.dispatch_tool("skills", {"action": "list"}))
    for name in ("words", "query"):
        assert json.loads(ctx.dispatch_tool("session_search", {name: "honey"}))["sessions"] == []
    (home / "skills" / "brew").mkdir(parents=True)
    (home / "skills" / "brew" / "SKILL.md").write_text("---\ndescription: Brew tea.\ncategory: kitchen\n---\nBoil.")
    skill = {"name": "brew", "description": "Brew tea.", "category": "kitchen"}
    assert json.loads(ctx.dispatch_tool("skills_list", {}))["skills"] == [skill]
    assert "skills_list" not in str(model_tools.get_tool_definitions())  # the model has `skills`
    assert "error" in json.loads(ctx.dispatch_tool("no_such_tool", {}))


def test_what_would_need_a_person_is_refused_and_roots_hold(ctx, home, tmp_path, monkeypatch):
    """G5, G7: policy, approval and roots are those of a turn in which nobody can be asked."""
    work = tmp_path / "work"
    work.mkdir()
    monkeypatch.chdir(work)
    assert "error" in json.loads(ctx.dispatch_tool("terminal", {"command": "rm -rf /etc", "level": "outside"}))
    (tmp_path / "secret.txt").write_text("behind the walls")
    assert "behind the walls" not in ctx.dispatch_tool("read_file", {"path": "../secret.txt"})


def test_what_was_said_is_found(ctx, home):
    store = Store(home / STORE_FILE)
    session = store.open_session(NewSession("agent:main:local:dm:one"))
    store.append(session.id, "writer", 0, [Row({"role": "user", "content": "buy quinces"})])
    store.close()
    assert "quinces" in ctx.dispatch_tool("session_search", {"words": "quinces"})


def test_inside_a_turn_a_tool_has_the_rights_of_the_turn(ctx):
    seen = []
    ctx.register_tool("look", "mine", {"description": "look"}, lambda args, context: seen.append(context) or "ok")
    own = ToolContext(folder="/there", person="anna")
    token = current_turn.set(TurnContext(CancelToken(), tools=own))
    try:
        ctx.dispatch_tool("look", {})
    finally:
        current_turn.reset(token)
    assert seen == [own]


def test_dispatch_tells_no_plugin_and_handle_function_call_does(ctx):
    fired = []
    ctx.register_tool("look", "mine", {"description": "look"}, lambda args, user_task="": f"saw {user_task}")
    ctx.register_hook("pre_tool_call", lambda **facts: fired.append(facts["tool_call_id"]))
    ctx.register_hook("transform_tool_result", lambda result, **facts: result.upper())
    assert ctx.dispatch_tool("look", {}) == "saw "
    assert fired == []
    assert model_tools.handle_function_call("look", {}, tool_call_id="c1", user_task="it") == "SAW IT"
    assert fired == ["c1"]
    assert "error" in json.loads(model_tools.handle_function_call("look", {}, enabled_tools=["other"]))


def test_a_block_holds_there_too(ctx):
    ctx.register_tool("look", "mine", {"description": "look"}, lambda args: "seen")
    ctx.register_hook("pre_tool_call", lambda **facts: {"action": "block", "message": "no"})
    assert json.loads(model_tools.handle_function_call("look", {})) == {"error": "no"}
    assert model_tools.handle_function_call("look", {}, skip_pre_tool_call_hook=True) == "seen"


def test_a_plugin_may_rewrite_what_a_command_printed(ctx, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    told = []

    def shorten(**facts):
        told.append(facts)
        return "short"

    ctx.register_hook("transform_terminal_output", shorten)
    result = json.loads(ctx.dispatch_tool("terminal", {"command": "echo long"}))
    assert result["output"] == "short"
    assert set(told[0]) - {"telemetry_schema_version"} == {"command", "output", "returncode", "task_id", "env_type"}
    assert (told[0]["output"], told[0]["returncode"]) == ("long\n", 0)


# --- the owner's model


@pytest.fixture
def model(lab, configure):
    configure(model={"base_url": lab.base_url, "default": "lab", "provider": "custom"})
    return lab


def test_a_plugin_asks_the_owners_model_and_its_conversation_pays(ctx, model):
    """A8"""
    charged = []
    token = current_turn.set(TurnContext(CancelToken(), "s", charge=charged.append))
    try:
        result = ctx.llm.complete([{"role": "user", "content": "[[say hello]]"}], purpose="greeting")
    finally:
        current_turn.reset(token)
    assert (result.text, result.model) == ("hello", "lab")
    assert result.usage.total_tokens == result.usage.input_tokens + result.usage.output_tokens > 0
    assert [row.kind for row in charged] == ["plugin:mine"]


def test_where_no_model_is_set_up_a_plugin_goes_without(home):
    """The built-in model chats, and writes no summaries: whoever asks hears at once that there is nobody."""
    with pytest.raises(RuntimeError, match="No model is set up"):
        call_llm("compression", messages=[{"role": "user", "content": "shorter"}])


def test_data_is_parsed(ctx, model):
    model.set_plan([{"text": '```json\n{"n": 1}\n```'}])
    schema = {"type": "object"}
    result = ctx.llm.complete_structured(instructions="count", input=[PluginLlmTextInput("one")], json_schema=schema)
    assert (result.parsed, result.content_type) == ({"n": 1}, "json")
    model.set_plan([{"text": "no json"}])
    assert ctx.llm.complete_structured(instructions="count", input="one", json_mode=True).parsed is None


@pytest.mark.parametrize("option", ["provider", "model", "agent_id", "profile"])
def test_another_choice_than_the_owners_needs_consent(ctx, model, option):
    with pytest.raises(PluginLlmTrustError, match=f"allow_{option}_override"):
        ctx.llm.complete([{"role": "user", "content": "hi"}], **{option: "other"})
    assert issubclass(PluginLlmTrustError, PermissionError)


def test_consent_may_be_for_some_models_only(model):
    llm = PluginLlm("mine", lambda: {"allow_model_override": True, "allowed_models": ["small"]})
    assert llm.complete([{"role": "user", "content": "hi"}], model="small").text
    with pytest.raises(PluginLlmTrustError):
        llm.complete([{"role": "user", "content": "hi"}], model="large")


# --- hermes NAME


WITH_COMMAND = """
    def register(ctx):
        ctx.register_cli_command("greet", "Greet.", setup, run)
        ctx.register_cli_command("config", "Take over.", setup, run)
    def setup(parser):
        parser.add_argument("--loud", action="store_true")
        below = parser.add_subparsers()
        below.add_parser("twice").set_defaults(func=lambda args: print("hi hi"))
    def run(args):
        print("HI" if args.loud else "hi")
"""


def test_a_plugin_brings_a_subcommand(write_plugin, configure, capsys):
    write_plugin("greeter", WITH_COMMAND)
    configure(plugins={"enabled": ["greeter"]})
    assert main(["greet", "--loud"]) == 0
    assert main(["greet", "twice"]) == 0
    assert capsys.readouterr().out == "HI\nhi hi\n"
    assert main(["config", "path"]) != 70  # built-in names win
    assert "HI" not in capsys.readouterr().out
    assert main(["nothing"]) == 2


# --- skills


def test_a_skill_of_a_plugin_is_read_by_its_full_name(ctx, tmp_path):
    folder = tmp_path / "brew"
    folder.mkdir()
    (folder / "SKILL.md").write_text("Boil water.")
    (folder / "more.md").write_text("And wait.")
    ctx.register_skill("tea", folder / "SKILL.md", "How tea is made.")
    read = json.loads(ctx.dispatch_tool("skills", {"action": "read", "name": "mine:tea"}))
    assert (read["success"], read["content"], read["linked_files"]) == (True, "Boil water.", ["more.md"])
    assert read["description"] == "How tea is made."
    more = json.loads(ctx.dispatch_tool("skills", {"action": "read", "name": "mine:tea", "file": "more.md"}))
    assert more["content"] == "And wait."
    missing = json.loads(ctx.dispatch_tool("skills", {"action": "read", "name": "mine:coffee"}))
    assert missing["available_skills"] == ["mine:tea"]
    assert "error" in json.loads(
        ctx.dispatch_tool("skills", {"action": "read", "name": "mine:tea", "file": "../../home/.env"})
    )


# --- names of commands


def test_a_command_is_found_with_either_sign(ctx):
    ctx.register_command("brew-tea", lambda text: "tea")
    ctx.register_command("pour_out", lambda text: "out")
    plugins.get_plugin_manager()._ready = True
    for word in ("brew-tea", "brew_tea", "BREW_TEA", "pour_out", "pour-out"):
        assert plugins.get_plugin_command_handler(word) is not None
    assert {"brew-tea", "brew_tea", "pour-out", "pour_out"} <= plugins.list_plugin_words()
    assert plugins.get_plugin_command_handler("coffee") is None


# --- rubbish


def test_a_plugin_that_registers_rubbish_harms_nobody(write_plugin, enable, caplog):
    write_plugin(
        "rubbish",
        """
        def register(ctx):
            ctx.register_hook("pre_llm_call", None)
            ctx.register_hook("post_llm_call", "text")
            ctx.register_context_engine(object())
            ctx.register_command("", None)
            ctx.register_command("rubbish", "text")
            ctx.register_cli_command("rubbish", "help", None)
            ctx.register_middleware("tool_execution", 3)
            ctx.register_tool("nothing", "rubbish", {}, None)
            ctx.register_tool("schemeless", "rubbish", None, print)
            ctx.register_platform("no name!", "", None, None)
            for kind in ("memory", "web_search", "browser", "image_gen", "video_gen", "tts"):
                getattr(ctx, f"register_{kind}_provider")(object())
            ctx.register_tool("rubbish", "rubbish", {}, lambda args: object())
        """,
    )
    write_plugin("worse", "def register(ctx): ctx.register_auxiliary_task('', display_name='', description='')")
    manager = enable("rubbish", "worse")
    assert manager.invoke_hook("pre_llm_call") == []
    assert manager.invoke_hook("post_llm_call") == []
    told = json.loads(model_tools.handle_function_call("rubbish", {}))
    assert told["error_type"] == "tool_result_contract"
    plugin = manager._plugins["rubbish"]
    assert "is no name for a task" in manager._plugins["worse"].error
    assert (plugin.tools_registered, plugin.offers, plugin.kept) == (["rubbish"], [], [])
    assert [manager._middleware, manager._plugin_commands, manager._cli_commands] == [{}, {}, {}]
    assert manager._context_engine is None
    assert len(plugin.refused) == 15
    assert all(any(why in record.message for record in caplog.records) for why in plugin.refused.values())


# --- questions to a person


@pytest.mark.parametrize(
    ("word", "choice"), [("approve", "once"), ("always", "always"), ("deny: not so", "deny"), ("", "timeout")]
)
def test_plugins_hear_what_is_asked_and_how_it_is_answered(ctx, word, choice):
    told = {}
    ctx.register_hook("pre_approval_request", lambda **facts: told.update(before=facts))
    ctx.register_hook("post_approval_response", lambda **facts: told.update(after=facts))
    answer = Answer(word, given=bool(word))
    context = ToolContext(conversation="agent:main:telegram:dm:1", call="c1", asker=lambda question: answer)
    agreed = ask_approval(context, "rm x", "it deletes")
    assert bool(agreed) is (choice in ("once", "always"))
    expected = {"command", "description", "pattern_key", "pattern_keys", "session_key", "surface", "turn_id"}
    assert set(told["before"]) - {"telemetry_schema_version"} == expected | {"tool_call_id"}
    assert (told["before"]["surface"], told["before"]["command"]) == ("gateway", "rm x")
    assert told["after"]["choice"] == choice


# --- switching off


def test_threads_that_a_plugin_leaves_running_are_named(write_plugin, enable, configure, caplog):
    write_plugin(
        "worker",
        """
        import threading
        GATE = threading.Event()
        def work(): GATE.wait()
        def register(ctx): threading.Thread(target=work, name="worker-at-work", daemon=True).start()
        """,
    )
    manager = enable("worker")
    module = manager._plugins["worker"].module
    configure(plugins={"enabled": []})
    manager.follow_settings()
    module.GATE.set()
    assert "worker-at-work" in caplog.text
    assert manager._plugins["worker"].enabled is False
