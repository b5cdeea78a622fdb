"""`hermes plugins list`, `info`, `search`, `new`, and what the doctor says: nothing stands only in a log."""

import json
import subprocess
import sys

import pytest

from hermes_base.errors import ConfigProblem
from hermes_cli import config, plugins, plugins_cmd
from hermes_cli.cmds import config_cmd, doctor
from hermes_cli.main import run as run_hermes
from hermes_cli.plugins_cmd.plugin_making import KINDS, _has_module
from hermes_cli.plugins_cmd.plugin_templates import TEMPLATES

GOOD = "def register(ctx): pass"
BROKEN = "def register(ctx):\n    key = 'sk-very-secret-key-000'\n    raise RuntimeError('no luck with ' + key)"


def test_one_line_in_the_list_and_the_trace_in_info(write_plugin, configure, home, capsys):
    write_plugin("broken", BROKEN)
    (home / ".env").write_text("SOME_API_KEY=sk-very-secret-key-000\n")
    configure(plugins={"enabled": ["broken"]})
    plugins_cmd.main(["list"])
    told = capsys.readouterr()
    assert told.out.startswith("broken: failed, user\n    no luck with ")
    assert "sk-very-secret" not in told.out
    assert "Traceback" not in told.out + told.err
    assert plugins_cmd.main(["info", "broken"]) == 0
    told = capsys.readouterr()
    assert "RuntimeError" in told.out
    assert "in register" in told.out
    assert "sk-very-secret" not in told.out


def test_plain_and_json_are_for_programs(write_plugin, configure, capsys):
    write_plugin("good", GOOD, {"version": "1.2", "description": "Does good."})
    write_plugin("banned", GOOD)
    write_plugin("resting", GOOD)
    configure(plugins={"enabled": ["good"], "disabled": ["banned"]})
    plugins_cmd.main(["ls", "--plain"])
    assert capsys.readouterr().out.splitlines() == [
        "disabled\tuser\t-\tbanned",
        "enabled\tuser\t1.2\tgood",
        "not enabled\tuser\t-\tresting",
    ]
    plugins_cmd.main(["list", "--json", "--enabled", "--user", "--no-bundled"])
    (row,) = json.loads(capsys.readouterr().out)
    known = {"name": "good", "status": "enabled", "version": "1.2", "description": "Does good.", "source": "user"}
    assert row.items() >= known.items()


def test_safe_mode_runs_nothing(write_plugin, configure, home, monkeypatch, capsys):
    monkeypatch.setenv("HERMES_SAFE_MODE", "1")
    write_plugin("good", f"open({str(home / 'ran')!r}, 'w')\n{GOOD}")
    configure(plugins={"enabled": ["good"]})
    plugins_cmd.main(["list", "--json"])
    assert json.loads(capsys.readouterr().out)[0]["status"] == "enabled"
    plugins_cmd.main(["info", "good"])
    assert not (home / "ran").exists()


def test_info_tells_of_code_settings_and_variables(write_plugin, configure, monkeypatch, capsys):
    folder = write_plugin("good", GOOD, {"requires_env": ["GOOD_KEY", {"name": "GOOD_HOST"}]})
    monkeypatch.setenv("GOOD_HOST", "h")
    configure(plugins={"enabled": ["good"], "entries": {"good": {"settings": {"depth": 3}}}})
    plugins_cmd.main(["info", "good"])
    told = capsys.readouterr().out
    assert "code: as it was enabled" in told
    assert "GOOD_KEY (not set), GOOD_HOST (set)" in told
    assert '{"settings": {"depth": 3}}' in told
    (folder / "more.py").write_text("")
    plugins.get_plugin_manager().clear()
    plugins.discover_plugins(force=True)
    plugins_cmd.main(["info", "good"])
    assert "not what was enabled" in capsys.readouterr().out


# --- commands of plugins


def test_a_command_of_the_terminal(write_plugin, configure, capsys):
    code = """
    def setup(parser):
        inner = parser.add_subparsers()
        inner.add_parser("own").set_defaults(func=lambda args: print("inner"))
    def handle(args):
        print("outer")
    def register(ctx):
        ctx.register_cli_command("speak", "Speak.", setup, handle)
        ctx.register_cli_command("config", "Not ours.", setup, handle)
    """
    write_plugin("p", code)
    configure(plugins={"enabled": ["p"]})
    assert run_hermes(["speak"]) == 0
    assert run_hermes(["speak", "own"]) == 0
    assert capsys.readouterr().out == "outer\ninner\n"
    assert run_hermes(["config", "get", "plugins.enabled"]) == 0  # what is built in wins
    assert "outer" not in capsys.readouterr().out
    assert run_hermes(["absent"]) == 2


# --- search


def test_search_in_a_folder_and_in_a_list(write_plugin, tmp_path, capsys):
    index = tmp_path / "index"
    write_plugin("dice", GOOD, {"description": "Rolls dice."}, root=index / "games")
    write_plugin("other", GOOD, root=index)
    assert plugins_cmd.main(["search", "ROLLS", "--in", str(index)]) == 0
    assert f"hermes plugins install {index / 'games' / 'dice'}" in capsys.readouterr().out
    assert plugins_cmd.main(["search", "nothing", "--in", str(index)]) == 1
    (tmp_path / "list.yaml").write_text("plugins:\n  - {name: far, description: From afar., source: owner/far}\n")
    with pytest.raises(ConfigProblem, match="no index"):
        plugins_cmd.main(["search", "far"])
    config.set_value("plugins.index", str(tmp_path / "list.yaml"))
    capsys.readouterr()
    assert plugins_cmd.main(["search", "afar"]) == 0
    assert "hermes plugins install owner/far" in capsys.readouterr().out


# --- new

OFFERED = sorted(kind for kind in KINDS if not TEMPLATES[kind].module or _has_module(TEMPLATES[kind].module))


@pytest.mark.slow
def test_new_plugins_pass_their_own_tests(tmp_path, monkeypatch, home):
    """H11: of every kind that this Hermes can use."""
    monkeypatch.chdir(tmp_path)
    for kind in OFFERED:
        assert plugins_cmd.main(["new", f"my-{kind}", "--kind", kind]) == 0
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--import-mode=importlib"]
    done = subprocess.run([*command, *(f"my-{kind}/tests" for kind in OFFERED)], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout
    assert f"{len(OFFERED)} passed" in done.stdout


@pytest.mark.parametrize("kind", sorted(KINDS))
def test_a_new_plugin_installs_and_loads(kind, tmp_path, monkeypatch, home, capsys):
    monkeypatch.chdir(tmp_path)
    if kind not in OFFERED:
        with pytest.raises(ConfigProblem, match="cannot use"):
            plugins_cmd.main(["new", "mine", "--kind", kind])
        return
    plugins_cmd.main(["new", "mine", "--kind", kind])
    with pytest.raises(ConfigProblem, match="exists"):
        plugins_cmd.main(["new", "mine", "--kind", kind])
    assert plugins_cmd.main(["install", "./mine", "--enable"]) == 0
    plugin = plugins.get_plugin_manager()._plugins.get("mine")
    assert plugin is None or plugin.error is None
    assert [path.name for path in tmp_path.iterdir() if path.name.startswith(".")] == []


@pytest.mark.parametrize("name", ["../x", "Big", "context_engine", "a b", "-x"])
def test_a_name_that_is_no_good(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises((ConfigProblem, SystemExit)):
        plugins_cmd.main(["new", name])


def test_a_misspelt_hook_is_told_once(write_plugin, configure, capsys):
    write_plugin("guard", "def register(ctx): ctx.register_hook('pre_tool_cal', lambda **_: None)")
    configure(plugins={"enabled": ["guard"]})
    plugins_cmd.main(["info", "guard"])
    said = capsys.readouterr().out
    assert "hook: pre_tool_cal: nothing here calls it (did you mean pre_tool_call?)" in said
    assert "unknown hook" not in said


ENGINE = """
    from agent.context_compressor import ContextCompressor
    class Ledger(ContextCompressor):
        name = "ledger"
    def register(ctx): ctx.register_context_engine(Ledger("lab"))
"""


def test_what_names_a_removed_plugin_is_told(write_plugin, configure, capsys):
    write_plugin("books", ENGINE)
    write_plugin("diary", "def register(ctx): ctx.register_memory_provider(None)", {"kind": "exclusive"})
    configure(context={"engine": "ledger"}, memory={"provider": "diary"})
    plugins_cmd.main(["remove", "books", "--yes"])
    assert "context.engine is ledger (if that was this one's:" in capsys.readouterr().out
    plugins_cmd.main(["remove", "diary", "--yes"])
    assert "memory.provider names it (to go on without: hermes memory off)" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("plugins.entries.bokos.settings.home x", "No plugin is called bokos. Did you mean books?"),
        ("plugins.entries.books.settings.home x", ""),
        ("context.engine nowhere", "an enabled plugin has to bring it"),
        ("context.engine compressor", ""),
    ],
)
def test_a_setting_that_nobody_may_read_is_noted(line, words, write_plugin, capsys):
    write_plugin("books", ENGINE)
    assert config_cmd.main(["set", *line.split()]) == 0
    said = capsys.readouterr().out
    assert words in said
    assert ("Note:" in said) == bool(words)


# --- the doctor


SINGS = """
from agent.tts_provider import TTSProvider

class Sings(TTSProvider):
    name = "sing"

    def synthesize(self, text, output_path, **options):
        return output_path

def register(ctx):
    ctx.register_tts_provider(Sings())
"""


@pytest.mark.slow
@pytest.mark.parametrize(("name", "words"), [("ledger", "comes from a plugin"), ("books", "plugins bring ledger")])
def test_the_doctor_knows_the_engines_of_plugins(name, words, write_plugin, configure):
    write_plugin("books", ENGINE)
    configure(plugins={"enabled": ["books"]}, context={"engine": name})
    [found] = doctor.check_engine(config.load_settings())
    assert words in f"{found.what} {found.fix}"


@pytest.mark.slow
def test_the_doctor_names_what_is_wrong_with_plugins(write_plugin, configure):
    """H3."""
    write_plugin("broken", BROKEN)
    write_plugin("offers", SINGS)
    configure(plugins={"enabled": ["broken", "offers"]})
    found = list(doctor.check_plugins(config.load_settings()))
    told = {finding.what: finding for finding in found}
    failed = next(finding for what, finding in told.items() if "broken could not be loaded" in what)
    assert (failed.level, "hermes plugins info broken" in failed.fix) == (doctor.FAIL, True)
    assert any("tts provider: sing: kept and not used yet" in what for what in told)
