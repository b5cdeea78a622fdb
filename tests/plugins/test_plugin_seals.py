"""G10: code of a plugin runs as it was enabled, or not at all."""

import os
import py_compile
import subprocess
import sys
from importlib.util import cache_from_source
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hermes_cli import config, plugins, plugins_cmd
from hermes_cli.cmds import doctor
from hermes_cli.plugins import plugin_seals
from plugins.context_engine import load_context_engine

SAYS = "def register(ctx):\n    ctx.register_hook('pre_verify', lambda **facts: {word!r})\n"
LAZY = """
    def register(ctx):
        ctx.register_hook('pre_verify', ask)

    def ask(**facts):
        from . import later
        return later.WORD
"""


def write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def reload() -> list[str]:
    plugins.discover_plugins(force=True)
    return plugins.invoke_hook("pre_verify")


@pytest.mark.parametrize(
    ("file", "told"),
    [
        ("__init__.py", "__init__.py was changed"),
        ("helper.py", "helper.py is new"),
        ("data/words.txt", "data/words.txt is new"),
        ("sub/deep/part.py", "sub/deep/part.py is new"),
    ],
)
def test_changed_code_runs_only_when_it_is_enabled_again(write_plugin, enable, capsys, file, told) -> None:
    """G10: whatever file of its folder changes; list and doctor say which, and the command is the consent."""
    folder = write_plugin("p", SAYS.format(word="first"))
    enable("p")
    assert reload() == ["first"]
    write(folder / file, SAYS.format(word="second"))
    assert reload() == []
    assert [told in line for line in plugins.list_changed()] == [True]
    plugins_cmd.main(["list"])
    assert (
        f"p: changed, user\n    p was not loaded: its code is not what was enabled ({told})" in capsys.readouterr().out
    )
    found = [finding for finding in doctor.check_plugins(config.load_settings()) if finding.level == doctor.WARN]
    assert [finding.fix for finding in found] == ["Look at it, then: hermes plugins enable p"]
    assert plugins_cmd.main(["enable", "p"]) == 0
    assert reload() == ["second" if file == "__init__.py" else "first"]


def test_what_a_plugin_writes_and_its_owner_sets_up_is_no_code(write_plugin, enable) -> None:
    """G10: whoever keeps a database beside the code is loaded at the next start, too; its manifest is as agreed."""
    folder = write_plugin("p", SAYS.format(word="first"))
    (folder / "settings.yaml").write_text("a: 1")
    enable("p")
    for name in ("p.db", "p.db-wal", "state.json", "log/p.log", ".env", "settings.yaml", "p.sqlite3-journal"):
        write(folder / name, "changed")
    assert reload() == ["first"]
    write(folder / "plugin.yaml", '{"name": "p", "version": "2"}')
    assert reload() == []


def test_what_a_plugin_lays_down_at_its_first_load_is_its_own(write_plugin, enable) -> None:
    """G10: but it does not change what was agreed to, and later is later."""
    lay = SAYS + "\nfrom pathlib import Path\nPath(__file__).with_name({name!r}).write_text({text!r})\n"
    folder = write_plugin("p", lay.format(word="first", name="words.txt", text="laid down"))
    enable("p")
    assert reload() == ["first"]
    (folder / "words.txt").write_text("changed")
    assert reload() == []
    other = lay.format(word="one", name="__init__.py", text=SAYS.format(word="another"))
    write_plugin("q", other)
    enable("q")
    assert "__init__.py was changed" in str(plugin_seals.find_change("q", folder.with_name("q")))


def test_a_file_behind_a_link_is_code_too(write_plugin, enable, tmp_path: Path) -> None:
    """G10: a link to a file or to a folder does not hide a change, and one back up is no endless way."""
    write(tmp_path / "elsewhere" / "part.py", "WORD = 'first'\n")
    folder = write_plugin("p", "from .linked.part import WORD\n" + SAYS.format(word="x").replace("'x'", "WORD"))
    (folder / "linked").symlink_to(tmp_path / "elsewhere")
    (folder / "up").symlink_to(folder)
    enable("p")
    assert reload() == ["first"]
    write(tmp_path / "elsewhere" / "late.py", "")
    with pytest.raises(ImportError, match="not what was enabled"):
        __import__("hermes_plugins.p.linked.late")
    write(tmp_path / "elsewhere" / "part.py", "WORD = 'other'\n")
    assert reload() == []


@pytest.mark.parametrize("way", ["relative", "through sys.path"])
def test_planted_bytecode_does_not_run(write_plugin, enable, way: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """G10: a cache that claims to be the compiled source is not believed, neither is bytecode without source."""
    monkeypatch.setattr(sys, "path", list(sys.path))
    find = (
        "from . import part" if way == "relative" else "import os, sys; sys.path.insert(0, os.path.dirname(__file__))"
    )
    get = "part" if way == "relative" else "__import__('part')"
    folder = write_plugin("p", f"{find}\n{SAYS.format(word='x')}".replace("'x'", f"{get}.WORD"), part="WORD = 'first'")
    part = folder / "part.py"
    evil = folder.parent.parent / "evil.py"
    write(evil, "WORD = 'evils'")
    os.utime(evil, ns=(part.stat().st_atime_ns, part.stat().st_mtime_ns))
    assert evil.stat().st_size == part.stat().st_size
    Path(cache_from_source(str(part))).parent.mkdir()
    py_compile.compile(str(evil), cfile=cache_from_source(str(part)), doraise=True)
    py_compile.compile(str(evil), cfile=str(folder / "bare.pyc"), doraise=True)
    enable("p")
    assert reload() == ["first"]
    with pytest.raises(ImportError):
        __import__("hermes_plugins.p.bare")
    sys.modules.pop("part", None)


def test_a_file_that_appears_later_is_not_imported(write_plugin, enable) -> None:
    """G10: an import in the middle of a turn takes what was enabled, and nothing that came after."""
    folder = write_plugin("p", LAZY, later="WORD = 'first'")
    enable("p")
    write(folder / "later.py", "WORD = 'other'\n")
    write(folder / "more" / "__init__.py", "WORD = 'more'\n")
    assert plugins.invoke_hook("pre_verify") == []
    with pytest.raises(ImportError, match="not what was enabled"):
        __import__("hermes_plugins.p.more")
    write(folder / "later.py", "WORD = 'first'")
    assert plugins.invoke_hook("pre_verify") == ["first"]


def test_a_changed_context_engine_is_not_loaded(home: Path, configure, capsys) -> None:
    """G10: `context.engine` is the consent for the first load; after a change the command is."""
    folder = home / "plugins" / "context_engine" / "own"
    code = (
        "from agent.context_engine import ContextEngine\n"
        "class Engine(ContextEngine):\n    name = 'own'\n"
        "    def update_from_response(self, usage): pass\n"
        "    def should_compress(self, prompt_tokens=None): return False\n"
        "    def compress(self, messages, current_tokens=None): return messages\n"
    )
    write(folder / "__init__.py", code)
    configure(context={"engine": "own"})
    assert load_context_engine("own") is not None
    del sys.modules["plugins.context_engine.own"]
    write(folder / "__init__.py", code + "print('changed')\n")
    assert load_context_engine("own") is None
    plugins_cmd.main(["list"])
    assert "hermes plugins enable context_engine/own" in capsys.readouterr().out
    assert plugins_cmd.main(["enable", "context_engine/own"]) == 0
    assert load_context_engine("own") is not None


def test_an_installed_package_is_checked_like_a_folder(home: Path, configure, tmp_path: Path) -> None:
    """G10: an upgrade of a package is changed code; through the real command, in a process of its own."""
    site = tmp_path / "site"
    write(site / "sealed_pack-1.dist-info" / "METADATA", "Metadata-Version: 2.1\nName: sealed-pack\nVersion: 1\n")
    write(site / "sealed_pack-1.dist-info" / "entry_points.txt", "[hermes_agent.plugins]\npacked = sealed_pack.main\n")
    write(site / "sealed_pack" / "__init__.py", "")
    write(site / "sealed_pack" / "main.py", "def register(ctx): print('ran')\n")
    configure(plugins={"enabled": ["packed"]})

    def run(*args: str) -> str:
        command = [sys.executable, "-m", "hermes_cli.main", "plugins", *args]
        env = {**os.environ, "HERMES_HOME": str(home), "PYTHONPATH": str(site), "PYTHONDONTWRITEBYTECODE": "1"}
        return subprocess.run(command, env=env, capture_output=True, text=True, timeout=60, check=False).stdout

    assert "ran" in run("list")
    assert "packed: on" in run("list")
    write(site / "sealed_pack" / "main.py", "def register(ctx): print('upgraded')\n")
    changed = run("list")
    assert "packed: changed" in changed
    assert "upgraded" not in changed
    assert "upgraded" in run("enable", "packed")
    assert "packed: on" in run("list")


@pytest.mark.parametrize("record", ["", "[]", '{"files": 7}', '{"files": {"__init__.py": 3}}', "\xff", "[" * 100_000])
def test_a_record_that_cannot_be_read_lets_nothing_run(home: Path, write_plugin, enable, record: str) -> None:
    """G10, H8: what was agreed to is not known, so it is asked for again."""
    write_plugin("p", SAYS.format(word="first"))
    enable("p")
    (home / plugin_seals.FOLDER / "p.json").write_bytes(record.encode("latin-1"))
    assert reload() == []
    assert plugins_cmd.main(["enable", "p"]) == 0
    assert reload() == ["first"]


def test_what_cannot_be_read_or_is_too_much_is_not_loaded(write_plugin, enable, monkeypatch) -> None:
    """G10: no limit and no odd file is a way around; a pipe holds up nobody."""
    folder = write_plugin("p", SAYS.format(word="first"))
    os.mkfifo(folder / "pipe")
    (folder / "dangling").symlink_to("nowhere")
    enable("p")
    assert reload() == ["first"]
    monkeypatch.setattr(plugin_seals, "MOST_FILES", 1)
    assert reload() == []
    assert "too large" in plugins.list_changed()[0]


FILES = st.dictionaries(st.sampled_from(["a.py", "b.py", "c/d.py"]), st.sampled_from("xyz"))


@given(FILES, FILES)
def test_the_same_files_and_only_those_are_the_same_code(agreed: dict[str, str], found: dict[str, str]) -> None:
    """G10"""
    assert bool(plugin_seals.describe_change(agreed, found)) == (agreed != found)
