"""G10: a plugin comes by command from anywhere, is seen before it runs, runs after a yes, and goes again."""

import io
import json
import os
import shutil
import signal
import subprocess
import sys
import tarfile
import threading
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import providers
from agent import browser_registry
from gateway.platforms import platform_list
from hermes_base.errors import ConfigProblem, HermesError
from hermes_base.turn.tool_context import ToolContext
from hermes_cli import config, plugins, plugins_cmd
from hermes_cli.main import run as run_hermes
from hermes_cli.plugins import plugin_seals
from hermes_cli.plugins_cmd import plugin_asking, plugin_choices, plugin_placing
from hermes_cli.plugins_cmd.plugin_updating import ASIDE, CARRIED, keep_own
from plugins.memory import load_memory_provider
from tools.browser.lending import lent_browsers
from tools.registry import registry
from tools.web.search_services import search_services

EXAMPLES = Path(__file__).parents[2] / "examples" / "plugins"
GOOD = "def register(ctx):\n    ctx.register_command('hi', lambda text: 'one')\n"
BETTER = GOOD.replace("one", "two") + "    ctx.register_hook('pre_llm_call', print)\n"


def hermes(*words: str) -> int:
    return plugins_cmd.main(list(words))


@pytest.fixture
def person(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Somebody at the terminal who answers so, and then nothing more."""

    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    def sit(*answers: str) -> None:
        terminal = Terminal("".join(f"{answer}\n" for answer in answers))
        monkeypatch.setattr(sys, "stdin", terminal)
        monkeypatch.setattr(plugin_asking.getpass, "getpass", lambda prompt: input(prompt))

    return sit


@pytest.fixture
def made(tmp_path: Path) -> Callable[..., Path]:
    """A plugin's folder outside of the home."""

    def make(name: str = "p", code: str = GOOD, manifest: str = "", **files: str) -> Path:
        folder = tmp_path / "made" / name
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "plugin.yaml").write_text(manifest or f"name: {name}\nversion: 1\n")
        (folder / "__init__.py").write_text(code)
        for file, text in files.items():
            (folder / file.replace("__", ".")).write_text(text)
        return folder

    return make


def git(folder: Path, *words: str) -> str:
    own = ["-c", "user.name=t", "-c", "user.email=t@localhost", "-c", "init.defaultBranch=main"]
    return subprocess.run(["git", "-C", str(folder), *own, *words], check=True, capture_output=True, text=True).stdout


def make_repository(folder: Path) -> str:
    git(folder, "init", "-q")
    git(folder, "add", "-A")
    git(folder, "commit", "-qm", "first")
    return f"file://{folder}"


def pack(folder: Path, target: Path) -> str:
    if target.suffix == ".zip":
        with zipfile.ZipFile(target, "w") as archive:
            for path in sorted(folder.rglob("*")):
                archive.write(path, path.relative_to(folder.parent))
    else:
        with tarfile.open(target, "w:gz") as tar:
            tar.add(folder, folder.name)
    return str(target)


# --- the examples, from everywhere

USES: dict[str, Callable[[plugins.PluginManager], Any]] = {
    "dice": lambda host: (
        json.loads(registry.dispatch("roll_dice", {"dice": 1, "sides": 2})) in (1, 2, {"result": "1"}, {"result": "2"})
    ),
    "shout": lambda host: host._plugin_commands["shout"]["handler"]("hello") == "HELLO!",
    "guard": lambda host: (
        host.invoke_hook("pre_tool_call", tool_name="t", args={"path": "keep.txt"})[0]["action"] == "block"
    ),
    "greet": lambda host: run_hermes(["greet", "Ada"]) == 0,
    "tail": lambda host: "tail" in [name for name, _ in plugins_cmd._discover_context_engines()],
    "stopwatch": lambda host: (
        plugins.PluginHooks(host).execute("tool_execution", {}, lambda args: "ran", tool_name="t") == "ran"
    ),
    "minutes": lambda host: "who was there" in read_skill("minutes:minutes"),
    "notebook": lambda host: runs_as_memory(host, "notebook"),
    "chatroom": lambda host: platform_list.find_spec("chatroom").label == "Chatroom",
    "echo-models": lambda host: providers.get_provider_profile("echo-models").name == "echo",
    "bookshelf": lambda host: search_services.find("bookshelf").reads_pages(),
    "lent-browser": lambda host: browser_registry.get_provider("lent-browser").name in lent_browsers._lenders,
}


def runs_as_memory(host: plugins.PluginManager, name: str) -> bool:
    """A memory runs once its own setting names it."""
    config.set_value("memory.provider", name)
    return load_memory_provider(name) is not None


def is_on(name: str) -> bool:
    if name == "notebook":
        return load_memory_provider(name) is not None
    return plugins.get_plugin_manager()._plugins[name].enabled


def read_skill(name: str) -> str:
    return registry.dispatch("skills", {"action": "read", "name": name}, context=ToolContext())


@pytest.mark.parametrize("form", ["folder", "tar.gz", "zip", "git"])
@pytest.mark.parametrize("name", USES)
def test_each_example_comes_runs_and_goes(name, form, tmp_path, home, capsys):
    """H11, G10."""
    source = tmp_path / "source" / name
    shutil.copytree(EXAMPLES / name, source, ignore=shutil.ignore_patterns("__pycache__"))
    where = {"folder": lambda: str(source), "git": lambda: make_repository(source)}.get(
        form, lambda: pack(source, tmp_path / f"{name}.{form}")
    )
    assert hermes("install", where()) == 0
    told = capsys.readouterr().out
    assert (f"To let it run: hermes plugins enable {name}" in told) == (name != "notebook")
    assert ("hermes memory setup notebook" in told) == (name == "notebook")
    plugins.discover_plugins(force=True)
    assert not plugins.get_plugin_manager()._plugins[name].enabled
    assert hermes("enable", name) == 0
    assert ("It registered:" in capsys.readouterr().out) == (name != "notebook")
    assert USES[name](plugins.get_plugin_manager())

    with (source / "__init__.py").open("a") as file:
        file.write("\n# newer\n")
    if form == "git":
        git(source, "commit", "-qam", "second")
    elif form != "folder":
        where()
    assert hermes("update", name, "--yes") == 0
    told = capsys.readouterr().out
    assert "changed: __init__.py" in told
    assert "+# newer" in told
    plugins.discover_plugins(force=True)
    assert is_on(name)  # the yes was consent to the new code
    assert hermes("update", name) == 0
    assert "as new as its source" in capsys.readouterr().out

    assert hermes("disable", name) == 0
    assert hermes("remove", name, "--yes") == 0
    assert not list((home / "plugins").iterdir())
    assert config.load_settings().plugins.enabled == ()
    plugins.discover_plugins(force=True)
    assert name not in plugins.get_plugin_manager()._plugins


def test_every_example_is_tried():
    assert set(USES) == {path.name for path in EXAMPLES.iterdir() if (path / "plugin.yaml").exists()}


def test_the_commit_is_kept_and_a_sub_folder_is_updated(made, tmp_path, home, capsys):
    made("repo/inner", manifest="name: inner\n")
    repository = tmp_path / "made" / "repo"
    address = make_repository(repository)
    assert hermes("install", f"{address}#inner") == 0
    origin = plugin_placing.read_origin(home / "plugins" / "inner")
    assert origin is not None
    assert (origin.commit, origin.source.sub) == (git(repository, "rev-parse", "HEAD").strip(), "inner")
    (repository / "inner" / "__init__.py").write_text(BETTER)
    git(repository, "commit", "-qam", "second")
    assert hermes("update", "inner", "--yes") == 0
    assert "+ hook: pre_llm_call" in capsys.readouterr().out
    assert (home / "plugins" / "inner" / "__init__.py").read_text() == BETTER
    assert not (home / "plugins" / "inner" / ".git").exists()
    hermes("info", "inner")
    assert git(repository, "rev-parse", "HEAD").strip() in capsys.readouterr().out


def test_a_branch_of_a_page_in_the_browser(made, tmp_path, home):
    folder = made("repo")
    make_repository(folder)
    git(folder, "checkout", "-qb", "next")
    (folder / "__init__.py").write_text(BETTER)
    git(folder, "commit", "-qam", "next")
    git(folder, "checkout", "-q", "main")
    assert hermes("install", f"file://{folder}/tree/next") == 0
    assert (home / "plugins" / "repo" / "__init__.py").read_text() == BETTER


def test_a_clone_by_hand_is_updated(made, tmp_path, home):
    folder = made("byhand")
    address = make_repository(folder)
    (home / "plugins").mkdir()
    subprocess.run(["git", "clone", "-q", address, str(home / "plugins" / "byhand")], check=True)
    (folder / "__init__.py").write_text(BETTER)
    git(folder, "commit", "-qam", "second")
    assert hermes("update", "byhand", "--yes") == 0
    assert (home / "plugins" / "byhand" / "__init__.py").read_text() == BETTER


def test_without_git_an_archive_is_asked_for_where_there_is_one(monkeypatch, capsys):
    monkeypatch.setenv("PATH", "/nowhere")
    asked: list[str] = []

    def download(address: str, target: Path) -> Path:
        asked.append(address)
        raise HermesError("no network")

    monkeypatch.setattr("hermes_cli.plugins_cmd.plugin_fetching.download", download)
    with pytest.raises(HermesError, match="no network"):
        hermes("install", "owner/repo")
    assert asked == ["https://codeload.github.com/owner/repo/tar.gz/HEAD"]
    with pytest.raises(HermesError, match="git is not installed"):
        hermes("install", "ssh://git@example.org/repo")


# --- what is asked


def test_nothing_runs_before_the_yes(made, home, person, capsys):
    """G10: not while it is looked at, and not because an old setting names it."""
    folder = made(code=f"open({str(home / 'ran')!r}, 'w')\n{GOOD}")
    (home / "config.yaml").write_text("plugins:\n  enabled: [p]\n")
    person("no")
    assert hermes("install", str(folder)) == 0
    told = capsys.readouterr().out
    assert "command: hi" in told
    assert "all your rights" in told
    plugins.discover_plugins(force=True)
    assert not (home / "ran").exists()
    assert config.load_settings().plugins.enabled == ()


def test_yes_enables_and_tells_what_came_of_it(made, person, capsys):
    code = "def register(ctx):\n    ctx.register_hook('kanban_task_claimed', print)\n"
    code += "    from agent.tts_provider import TTSProvider\n"
    code += "    ctx.register_tts_provider(type('Tts', (TTSProvider,), {'name': 'sing', 'synthesize': print})())\n"
    code += "    ctx.register_transcription_provider(type('Stt', (), {'name': 'hear'})())\n"
    code += "    ctx.register_command('help', print)\n    ctx.register_tool('read_file', 'p', {}, print)\n"
    person("y")
    assert hermes("install", str(made(code=code, manifest="name: p\nprovides_tools: [absent]\n"))) == 0
    told = capsys.readouterr().out
    assert "tts provider: sing: kept and not used yet" in told
    assert "    transcription provider: hear\n" in told
    assert "hook: kanban_task_claimed: nothing here calls it" in told
    assert "tool: absent: its manifest announces it" in told
    assert "command: /help: refused: a command of Hermes has this name" in told
    assert "tool: read_file: refused: a tool of Hermes has this name" in told


def test_dry_run_changes_nothing(made, home, capsys):
    assert hermes("install", str(made()), "--dry-run", "--enable") == 0
    assert "command: hi" in capsys.readouterr().out
    assert not list((home / "plugins").iterdir())
    assert not (home / "config.yaml").exists()


def test_variables_are_asked_for_and_kept(made, home, person, capsys):
    host = '{name: P_HOST, description: "Where\\e[31m it is", secret: false}'
    manifest = f"name: p\nrequires_env:\n  - P_KEY\n  - {host}\n  - P_LATER\n"
    person("s3cret-value", "host.example", "", "n")
    hermes("install", str(made(manifest=manifest)))
    assert "P_LATER is not set" in capsys.readouterr().out
    assert config.load_env() == {"P_KEY": "s3cret-value", "P_HOST": "host.example"}
    hermes("remove", "p", "--yes")
    assert "in .env: P_KEY" in capsys.readouterr().out
    assert "P_KEY" in config.load_env()


def test_an_example_does_not_become_the_manifest_after_everybody_has_looked(made, home, capsys):
    folder = made(manifest="name: p\n", plugin__yaml__example="name: other\nkind: exclusive\n")
    (folder / "plugin.yaml").rename(folder / "plugin.yml")
    assert hermes("install", str(folder)) == 0
    assert not (home / "plugins" / "p" / "plugin.yaml").exists()
    assert plugin_choices.need_plugin("p").kind == "standalone"


def test_names_of_what_was_registered_cannot_turn_the_line(made, home, capsys):
    code = "def register(ctx):\n    ctx.register_command('a' + chr(0x202e) + 'b', print)\n"
    assert hermes("install", str(made(code=code)), "--enable") == 0
    assert "\u202e" not in capsys.readouterr().out


def test_a_folder_in_the_place_of_the_note_where_it_came_from_is_refused(made, home):
    folder = made()
    (folder / plugin_placing.ORIGIN).mkdir()
    (folder / plugin_placing.ORIGIN / "x").write_text("")
    with pytest.raises(ConfigProblem, match="a file of ours"):
        hermes("install", str(folder))
    assert not (home / "plugins" / "p").exists()


@pytest.mark.parametrize("method", [zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA])
def test_an_archive_whose_bytes_stand_for_any_number_is_not_unpacked(made, home, tmp_path, method):
    """A few kilobytes of these are gigabytes at the first read, before anything can be counted."""
    path = tmp_path / "bomb.zip"
    with zipfile.ZipFile(path, "w") as archive:
        for file in sorted(made().iterdir()):
            archive.write(file, file.name)
        archive.writestr("big.bin", bytes(1 << 20), method)
    with pytest.raises(ConfigProblem, match="packed in a way that is not taken"):
        hermes("install", str(path))
    assert not (home / "plugins" / "p").exists()


def test_examples_become_files_and_after_install_is_shown(made, home, capsys):
    folder = made(settings__yaml__example="a: 1\n")
    (folder / "after-install.md").write_text("Now do\x1b[2J this.")
    hermes("install", str(folder))
    told = capsys.readouterr().out
    assert "Now do[2J this." in told
    own = home / "plugins" / "p" / "settings.yaml"
    assert own.read_text() == "a: 1\n"
    own.write_text("a: 2\n")
    hermes("install", str(folder), "--force")
    assert own.read_text() == "a: 2\n"


def test_what_is_there_stays_unless_forced(made, home):
    hermes("install", str(made()))
    made(code=BETTER)
    with pytest.raises(ConfigProblem, match="installed already"):
        hermes("install", str(made(code=BETTER)))
    assert (home / "plugins" / "p" / "__init__.py").read_text() == GOOD
    hermes("install", str(made(code=BETTER)), "--force")
    assert (home / "plugins" / "p" / "__init__.py").read_text() == BETTER
    assert [path.name for path in (home / "plugins").iterdir()] == ["p"]


def test_a_refused_install_leaves_the_plugin_enabled(made):
    """G10: what stays as it is stays enabled, too."""
    hermes("install", str(made()), "--enable")
    with pytest.raises(ConfigProblem, match="installed already"):
        hermes("install", str(made(code=BETTER)), "--enable")
    assert plugin_choices.read_names("enabled") == ["p"]


def test_a_yes_to_the_update_of_a_memory_lets_it_run(made, home, capsys):
    """G10: a memory that is chosen goes on after an update, and one that was never agreed to is not let in by it."""
    code = (EXAMPLES / "notebook" / "__init__.py").read_text()
    hermes("install", str(made("notebook", code)))
    config.set_value("memory.provider", "notebook")
    made("notebook", code + "ONE = 1\n")
    hermes("update", "notebook", "--yes")
    assert not plugin_seals.is_agreed("memory/notebook")
    plugin_seals.agree("memory/notebook", home / "plugins" / "notebook")
    made("notebook", code + "TWO = 2\n")
    hermes("update", "notebook", "--yes")
    assert plugin_seals.find_change("memory/notebook", home / "plugins" / "notebook") is None
    assert "takes effect at the next start" in capsys.readouterr().out
    hermes("info", "notebook")
    assert "code: as it was enabled" in capsys.readouterr().out


def test_what_takes_the_place_of_a_changed_file_is_shown(made, home, capsys):
    """G10: an update shows each line that is going to run, also where the owner changed the old one."""
    hermes("install", str(made()))
    (home / "plugins" / "p" / "__init__.py").write_text(GOOD + "# mine\n")
    made(code=BETTER)
    hermes("update", "p", "--yes")
    assert "+    ctx.register_hook('pre_llm_call', print)" in capsys.readouterr().out


def test_a_tool_is_replaced_only_by_consent(made, person, capsys):
    code = "def register(ctx):\n    ctx.register_tool('read_file', 'p', {}, print, override=True)\n"
    hermes("install", str(made(code=code)))
    person("n")
    assert hermes("enable", "p") == 1
    assert "wants to replace the tool" in capsys.readouterr().out
    assert hermes("enable", "p", "--allow-tool-override") == 0
    assert plugin_choices.read_entry("p") == {"allow_tool_override": True}
    assert hermes("enable", "p", "--no-allow-tool-override") == 1


@pytest.mark.parametrize(("answer", "kept"), [("y", True), ("n", False)])
def test_who_may_write_is_the_owners_to_say(made, person, answer, kept):
    code = "class A:\n    enforces_own_access_policy = True\n" + GOOD
    hermes("install", str(made(code=code)))
    person(answer)
    hermes("enable", "p")
    assert plugin_choices.read_entry("p") == {"allow_own_access": kept}
    hermes("enable", "p", "--no-allow-own-access")
    assert plugin_choices.read_entry("p") == {"allow_own_access": False}
    hermes("install", str(made("q")), "--enable")
    assert plugin_choices.read_entry("q") == {}  # nothing in its code asks for that


def test_no_consent_without_a_person(made, home):
    hermes("install", str(made()))
    with pytest.raises(HermesError, match="--yes"):
        hermes("remove", "p")
    made(code=BETTER)
    with pytest.raises(HermesError, match="--yes"):
        hermes("update", "p")
    assert (home / "plugins" / "p" / "__init__.py").read_text() == GOOD


def test_a_bare_name_is_no_source(capsys):
    with pytest.raises(ConfigProblem, match="pip:something"):
        hermes("install", "something")


# --- what is refused


@pytest.mark.parametrize("name", ["../x", "/etc", ".hidden", "a/b", "..", "context_engine", "x\\ny", "a" * 80])
def test_a_name_that_is_no_folder_is_refused(name, made, home, tmp_path):
    folder = made(manifest=f"name: {json.dumps(name)}\n".replace("\\\\n", "\\n"))
    with pytest.raises(ConfigProblem, match="cannot be the name"):
        hermes("install", str(folder))
    assert not list((home / "plugins").iterdir())
    assert not (home / "x").exists()


@pytest.mark.parametrize("version", ["2", "'2'", "none", "[1]"])
def test_a_newer_manifest_is_refused(version, made):
    with pytest.raises(ConfigProblem, match="manifest"):
        hermes("install", str(made(manifest=f"name: p\nmanifest_version: {version}\n")))


def test_links_out_of_a_plugin_are_refused(made, home):
    folder = made()
    (folder / "key").symlink_to("/etc/hostname")
    with pytest.raises(ConfigProblem, match="leads out"):
        hermes("install", str(folder))
    (folder / "key").unlink()
    (folder / "same").symlink_to("__init__.py")
    assert hermes("install", str(folder)) == 0
    assert os.readlink(home / "plugins" / "p" / "same") == "__init__.py"


def test_a_note_of_its_origin_that_a_plugin_brings_counts_for_nothing(made, home):
    folder = made()
    (folder / plugin_placing.ORIGIN).write_text('{"source": {"kind": "git", "address": "https://evil.example/x"}}')
    hermes("install", str(folder))
    origin = plugin_placing.read_origin(home / "plugins" / "p")
    assert origin is not None
    assert origin.source.address == str(folder)


def test_several_plugins_in_one_place_have_to_be_chosen_from(made, tmp_path):
    made("a")
    made("b")
    with pytest.raises(ConfigProblem, match=r"several plugins: a, b"):
        hermes("install", str(tmp_path / "made"))
    (tmp_path / "empty").mkdir()
    with pytest.raises(ConfigProblem, match=r"no plugin.yaml"):
        hermes("install", str(tmp_path / "empty"))


# --- what happens in between


@pytest.mark.parametrize("point", ["fetch", "write_origin", "place", "done"])
@pytest.mark.parametrize("old", [False, True])
def test_a_killed_install_leaves_nothing_half(point, old, made, home, monkeypatch):
    folder = made(code=BETTER)
    if old:
        hermes("install", str(made("old/p", code=GOOD, manifest="name: p\n")))
    child = os.fork()
    if not child:
        try:
            _die_at(point)
            hermes("install", str(folder), "--force")
        finally:
            os._exit(1)
    assert os.waitpid(child, 0)[1] == signal.SIGKILL
    plugins.discover_plugins(force=True)
    found = {key: (home / "plugins" / key / "__init__.py").read_text() for key in plugins.get_plugin_manager()._plugins}
    assert found == ({"p": BETTER} if point == "done" else {"p": GOOD} if old else {})
    hermes("install", str(folder), "--force")
    assert [path.name for path in (home / "plugins").iterdir()] == ["p"]  # what was left is gone


def _die_at(point: str) -> None:
    from hermes_cli.plugins_cmd import plugin_installing

    def die(*args: object, **more: object) -> None:
        os.kill(os.getpid(), signal.SIGKILL)

    if point == "fetch":
        plugin_installing.prepare = die
    elif point == "done":
        plugin_installing.ask_variables = die
    else:
        setattr(plugin_placing, point, die)


def test_two_installs_at_once(made, home):
    """One of them wins, whole; the other says that it is there already."""
    folders = [made("one/p", code=GOOD, manifest="name: p\n"), made("two/p", code=BETTER, manifest="name: p\n")]
    results: list[object] = []

    def install(folder: Path) -> None:
        try:
            results.append(hermes("install", str(folder)))
        except ConfigProblem as problem:
            results.append(str(problem))

    threads = [threading.Thread(target=install, args=(folder,)) for folder in folders]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert 0 in results
    assert any("installed already" in str(result) for result in results)
    assert [path.name for path in (home / "plugins").iterdir()] == ["p"]


# --- updating


def test_changed_code_waits_for_its_consent(made, home, person, capsys):
    """G10: an update without a yes changes nothing, and one of a plugin that is off lets nothing run."""
    hermes("install", str(made()), "--enable")
    made(code=BETTER)
    person("n")
    assert hermes("update", "p") == 1
    assert (home / "plugins" / "p" / "__init__.py").read_text() == GOOD
    hermes("disable", "p")
    assert hermes("update", "p", "--yes") == 0
    assert "To let it run" in capsys.readouterr().out
    plugins.discover_plugins(force=True)
    assert not plugins.get_plugin_manager()._plugins["p"].enabled


def test_what_the_owner_changed_is_never_lost(made, home, capsys):
    hermes("install", str(made(a__txt="1", b__txt="1", gone__txt="1")))
    own = home / "plugins" / "p"
    for name in ("a.txt", "b.txt", "gone.txt", "mine.txt"):
        (own / name).write_text("mine")
    folder = made(b__txt="2")
    (folder / "gone.txt").unlink()
    hermes("update", "p", "--yes")
    kept = {path.name: path.read_text() for path in own.glob("*.txt*")}
    assert kept == {
        "a.txt": "mine",
        "mine.txt": "mine",
        "b.txt": "2",
        "b.txt.before-update": "mine",
        "gone.txt.before-update": "mine",
    }
    assert hermes("update", "p") == 0


def test_keep_own():
    came, new = {"a": "1", "b": "1", "c": "1"}, {"a": "1", "b": "2", "d": "1"}
    local = {"a": "x", "b": "x", "c": "x", "d": "x", "e": "x"}
    assert keep_own(came, local, new) == {"a": CARRIED, "b": ASIDE, "c": ASIDE, "d": ASIDE, "e": CARRIED}
    assert keep_own(came, came, new) == {}


def test_a_plugin_from_nowhere_cannot_be_updated(write_plugin):
    write_plugin("loose", GOOD)
    with pytest.raises(ConfigProblem, match="came from"):
        hermes("update", "loose")


def test_a_plugin_in_a_category_stays_there(made, home):
    hermes("install", str(made()))
    (home / "plugins" / "games").mkdir()
    (home / "plugins" / "p").rename(home / "plugins" / "games" / "p")
    made(code=BETTER)
    assert hermes("update", "games/p", "--yes") == 0
    assert (home / "plugins" / "games" / "p" / "__init__.py").read_text() == BETTER
    with pytest.raises(ConfigProblem, match="already"):
        hermes("install", str(made()))
    assert hermes("remove", "p", "--yes") == 0
    assert not list((home / "plugins" / "games").iterdir())


def test_a_linked_plugin_is_unlinked(made, home):
    folder = made()
    (home / "plugins").mkdir()
    (home / "plugins" / "p").symlink_to(folder)
    with pytest.raises(ConfigProblem, match="link"):
        hermes("update", "p")
    assert hermes("rm", "p", "-y") == 0
    assert folder.is_dir()
    assert not list((home / "plugins").iterdir())


def test_removing_tells_what_stays(made, home, capsys):
    hermes("install", str(made(manifest="name: p\ndependencies: [pytest]\n")), "--no-dependencies", "--enable")
    config.set_path(["plugins", "entries", "p", "settings"], {"x": 1})
    (home / "p").mkdir()
    assert hermes("uninstall", "p", "--yes") == 0
    told = capsys.readouterr().out
    assert "plugins.entries.p" in told
    assert f"data: {home / 'p'}" in told
    assert "pytest" in told
    hermes("install", str(made(code=BETTER)), "--enable")  # another one of this name is no changed one
    assert plugins.get_plugin_manager()._plugins["p"].enabled


def test_a_link_leads_to_the_plugin_and_not_to_its_repository(made, tmp_path, home):
    """G7: what is moved is the plugin's folder; from its place the same link leads into the home."""
    (home / ".env").write_text("KEY=secret-of-the-owner\n")
    folder = made("inner/plug", manifest="name: plug\n")
    (tmp_path / "made" / ".env").write_text("nothing\n")
    (folder / "notes.txt").symlink_to("../../.env")
    source = make_repository(tmp_path / "made")
    with pytest.raises(ConfigProblem, match=r"notes\.txt is a link that leads out"):
        hermes("install", f"{source}#inner/plug")
    assert not (home / "plugins" / "plug").exists()


def test_no_code_is_made_of_an_example(made, home):
    """G10: what is shown of a plugin is all the code it has."""
    hermes("install", str(made(impl__py__example="import subprocess\n", own__yaml__example="a: 1\n")), "--no-enable")
    names = {path.name for path in (home / "plugins" / "p").iterdir()}
    assert "own.yaml" in names
    assert "impl.py" not in names


def test_an_update_shows_what_cannot_be_seen(made, home, capsys):
    """G4: marks that turn the text around, and code behind a long run of blanks."""
    folder = made()
    hermes("install", str(folder), "--no-enable")
    (folder / "__init__.py").write_text(GOOD + f"x = 1  # \u202e\u2066 no\nok = 1{' ' * 300}; import os\n")
    hermes("update", "p", "--yes")
    told = capsys.readouterr().out
    assert "\u202e" not in told
    assert "\\u202e\\u2066 no" in told
    assert "⟨300 blanks⟩" in told


def test_half_a_sign_in_a_manifest_is_no_crash(made):
    folder = made(manifest='name: p\ndescription: "a\\ud800b"\n')
    words = [sys.executable, "-m", "hermes_cli.main", "plugins", "install", str(folder), "--dry-run"]
    env = {**os.environ, "PYTHONUTF8": "1"}
    done = subprocess.run(words, env=env, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "a\ufffdb" in done.stdout


@pytest.mark.parametrize("form", ["{repo}", "{repo}/sub", "{repo}#sub", "file://{repo}"])
def test_a_bare_repository_is_cloned_from_its_path(form, made, tmp_path, home):
    """As servers keep repositories: there are no files in it to copy."""
    inside = "sub" in form
    folder = made("inner/sub" if inside else "p", manifest="name: p\n")
    make_repository(folder.parent if inside else folder)
    bare = tmp_path / "it.git"
    git(tmp_path, "clone", "-q", "--bare", str(folder.parent if inside else folder), str(bare))
    assert hermes("install", form.format(repo=bare), "--enable") == 0
    assert plugins.get_plugin_commands()["hi"]["handler"]("") == "one"
    assert plugin_placing.read_origin(home / "plugins" / "p").commit
