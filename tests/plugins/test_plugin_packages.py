"""Python packages: what a plugin needs, and plugins that are packages; no index is asked, nothing of ours changes."""

import json
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path

import pytest

from hermes_base.errors import HermesError
from hermes_cli import plugins, plugins_cmd
from hermes_cli.plugins_cmd import plugin_needs
from hermes_cli.plugins_cmd.plugin_looking import PluginLook, look

ROOT = Path(__file__).parents[2]


def make_wheel(
    folder: Path, name: str, version: str, files: dict[str, str], metadata: str = "", points: str = ""
) -> Path:
    """A wheel as a build would lay it out."""
    folder.mkdir(exist_ok=True)
    info = f"{name}-{version}.dist-info"
    about = f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n{metadata}"
    kind = "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
    whole = {**files, f"{info}/METADATA": about, f"{info}/WHEEL": kind}
    if points:
        whole[f"{info}/entry_points.txt"] = points
    whole[f"{info}/RECORD"] = "".join(f"{place},,\n" for place in (*whole, f"{info}/RECORD"))
    wheel = folder / f"{name}-{version}-py3-none-any.whl"
    with zipfile.ZipFile(wheel, "w") as archive:
        for place, text in whole.items():
            archive.writestr(place, text)
    return wheel


@pytest.fixture
def index(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder in the place of the package index; what is installed goes to another, which is on the path."""
    folder, site = tmp_path / "wheels", tmp_path / "site"
    folder.mkdir()
    site.mkdir()
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(folder))
    monkeypatch.setenv("PIP_TARGET", str(site))
    monkeypatch.syspath_prepend(str(site))
    return folder


@pytest.mark.slow
def test_packages_come_after_a_yes_as_wheels(index, tmp_path, write_plugin, home, capsys):
    make_wheel(index, "tiny_need", "1.0", {"tiny_need.py": "VALUE = 7\n"})
    folder = tmp_path / "p"
    folder.mkdir()
    (folder / "plugin.yaml").write_text(
        "name: p\npip_dependencies: [tiny-need>=1]\ndependencies: ['x @ https://h/x.whl']\n"
    )
    (folder / "__init__.py").write_text(
        "import tiny_need\ndef register(ctx):\n    ctx.register_command('p', lambda text: str(tiny_need.VALUE))\n"
    )
    assert plugins_cmd.main(["install", str(folder), "--dry-run"]) == 0
    told = capsys.readouterr().out
    assert "needs packages: tiny-need>=1" in told
    assert "yours to install (an address, a path or an option): x @ https://h/x.whl" in told
    assert "Packages that would be installed: tiny_need==1.0" in told or "tiny-need==1.0" in told
    assert not (tmp_path / "site" / "tiny_need.py").exists()
    assert plugins_cmd.main(["install", str(folder), "--dependencies", "--enable"]) == 0
    assert plugins.get_plugin_manager()._plugin_commands["p"]["handler"]("") == "7"


@pytest.mark.slow
def test_a_package_that_is_a_plugin(index, tmp_path, home, capsys):
    points = "[hermes_agent.plugins]\nby-module = tiny_plugin\nby-function = tiny_plugin.inner:register\n"
    code = "def register(ctx):\n    ctx.register_command(NAME, lambda text: 'here')\nNAME = "
    files = {"tiny_plugin/__init__.py": f"{code}'one'\n", "tiny_plugin/inner.py": f"{code}'two'\n"}
    make_wheel(index, "tiny_plugin", "1.0", files, points=points)
    assert plugins_cmd.main(["install", "pip:tiny-plugin", "--dependencies", "--enable"]) == 0
    known = plugins.get_plugin_manager()._plugin_commands
    assert {known[name]["handler"]("") for name in ("one", "two")} == {"here"}
    told = capsys.readouterr().out
    assert "by-module 1.0 is installed" in told
    assert "command: one, two" in told
    plugins_cmd.main(["list", "--json"])
    rows = {row["name"]: row for row in json.loads(capsys.readouterr().out)}
    assert (rows["by-function"]["source"], rows["by-function"]["status"]) == ("entrypoint", "enabled")
    for name in [name for name in sys.modules if name.startswith("tiny_plugin")]:
        del sys.modules[name]


@pytest.mark.slow
def test_ours_stay_at_their_versions(index, tmp_path):
    make_wheel(index, "greedy", "1.0", {"greedy.py": ""}, "Requires-Dist: pytest==0.1\n")
    make_wheel(index, "pytest", "0.1", {"pytest.py": ""})
    with pytest.raises(plugin_needs.PipFailed, match="pytest"):
        plugin_needs.plan(["greedy"], tmp_path)


@pytest.mark.parametrize("name", ["agent/__init__.py", "hermes_cli/x.py", "x-1.data/purelib/tools/x.py", "run.pth"])
def test_a_wheel_that_reaches_for_ours_is_refused(name, tmp_path):
    wheel = make_wheel(tmp_path / "w", "x", "1", {name: ""})
    with pytest.raises(HermesError, match="brings"):
        plugin_needs.check_wheel(wheel)
    plugin_needs.check_wheel(make_wheel(tmp_path / "w", "y", "1", {"y/agent.py": ""}))


def test_what_cannot_be_written_is_told_as_a_command(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr("hermes_cli.plugins_cmd.plugin_needs.find_installer", list)
    folder = tmp_path / "p"
    folder.mkdir()
    (folder / "plugin.yaml").write_text("name: p\nrequirements: [absent-package]\n")
    (folder / "__init__.py").write_text("def register(ctx): pass\n")
    plugins_cmd.main(["install", str(folder)])
    assert "-m pip install --only-binary :all: absent-package" in capsys.readouterr().out
    with pytest.raises(HermesError, match="cannot be changed"):
        plugins_cmd.main(["install", "pip:absent-package"])


def test_what_is_taken_for_granted_is_the_extra_and_comes_by_itself(tmp_path, monkeypatch):
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    assert sorted(plugin_needs.TAKEN_FOR_GRANTED.values()) == sorted(project["tool"]["hermes"]["extras"]["plugins"])
    monkeypatch.setattr(plugin_needs, "find_missing", sorted)
    found = plugin_needs.read_needs(tmp_path, PluginLook(imports={"yaml", "numpy_like"}))
    assert (found.lines, found.unlisted) == (["pyyaml>=6"], ["numpy_like"])


@pytest.mark.parametrize(
    "line", ["-r other.txt", "--index-url https://x", "git+https://h/x", "./local", "x @ file:///x"]
)
def test_lines_that_are_not_followed(line, tmp_path):
    (tmp_path / "requirements.txt").write_text(f"# a comment\n{line}\nabsent-one>=1,<2 ; python_version > '3'\n")
    found = plugin_needs.read_needs(tmp_path, PluginLook())
    assert (found.refused, found.lines) == ([line], ["absent-one>=1,<2 ; python_version > '3'"])


def test_a_look_runs_nothing(tmp_path: Path) -> None:
    folder = tmp_path / "p"
    folder.mkdir()
    (folder / "plugin.yaml").write_text("name: p\nprovides_tools: [announced]\n")
    (folder / "__init__.py").write_text(
        "raise SystemExit\nimport subprocess, numpy_like\nfrom . import inner\nfrom own import x\nNAME = 'named'\n"
        "try:\n    import maybe\nexcept ImportError:\n    maybe = None\n"
        "def register(ctx):\n    import later\n    ctx.register_tool(NAME, 't', {}, print, override=True)\n"
        "    ctx.register_hook(hook_name='pre_llm_call', callback=print)\n"
        "    for n in inner.ALL:\n        ctx.register_command(n, print)\n"
    )
    (folder / "own.py").write_text("allow_all_env = 'X'\n")
    (folder / "odd.py").write_text("print 'two'\n")
    found = look(folder)
    assert found.describe() == ["command: names show when it runs", "hook: pre_llm_call", "tool: announced, named"]
    assert found.imports == {"subprocess", "numpy_like"}
    assert found.may_import == {"maybe", "later"}
    assert found.overrides_tools
    assert found.has_own_access
    assert found.unread == ["odd.py"]
    assert found.find_powers() == ["starts programs"]


def test_pip_is_there() -> None:
    """Else the tests above would have tried nothing."""
    subprocess.run([sys.executable, "-m", "pip", "--version"], check=True, capture_output=True)


@pytest.mark.parametrize(
    "place",
    [
        "evil-1.0.data/data/lib/PYTHON/site-packages/sitecustomize.py",
        "evil-1.0.data/data/lib/PYTHON/site-packages/hermes_cli/__init__.py",
        "evil-1.0.data/data/pyvenv.cfg",
        "evil-1.0.data/scripts/python3",
        "evil-1.0.data/purelib/./hermes_cli/more.py",
        "sitecustomize/__init__.py",
        "usercustomize.abi3.so",
        "run_agent.abi3.so",
        "pip/__init__.py",
        "evil.PTH",
    ],
)
def test_no_wheel_brings_code_for_every_start_by_another_way(tmp_path: Path, place: str) -> None:
    """G10: neither under another name of the same module, nor past the folder of modules, nor over another package."""
    if place.endswith("pyvenv.cfg") and not Path(sys.prefix, "pyvenv.cfg").exists():
        pytest.skip("there is none here")
    where = place.replace("PYTHON", f"python{sys.version_info[0]}.{sys.version_info[1]}")
    with pytest.raises(HermesError, match="brings"):
        plugin_needs.check_wheel(make_wheel(tmp_path, "evil", "1.0", {where: "x"}))


def test_no_wheel_names_a_script_that_is_there(tmp_path: Path) -> None:
    points = "[console_scripts]\npython3 = evil:main\n"
    with pytest.raises(HermesError, match="a script python3"):
        plugin_needs.check_wheel(make_wheel(tmp_path, "evil", "1.0", {"evil.py": ""}, points=points))
    plugin_needs.check_wheel(make_wheel(tmp_path, "good", "1.0", {"good.py": ""}))


@pytest.mark.slow
def test_no_package_is_built_before_the_yes(index: Path, tmp_path: Path) -> None:
    """G10: a ready-made package may name one to be built by its address, which no option of pip keeps it from."""
    source, ran = tmp_path / "payload", tmp_path / "ran"
    source.mkdir()
    (source / "pyproject.toml").write_text("[build-system]\nrequires = []\nbuild-backend = 'b'\nbackend-path = ['.']\n")
    (source / "b.py").write_text(f"open({str(ran)!r}, 'w').close()\n")
    make_wheel(index, "needy", "1.0", {"needy.py": ""}, metadata=f"Requires-Dist: payload @ {source.as_uri()}\n")
    with pytest.raises(plugin_needs.PipFailed):
        plugin_needs.plan(["needy"], tmp_path)
    assert not ran.exists()


@pytest.mark.slow
def test_a_file_beside_us_is_not_taken_for_pip(index: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """G10: whoever installs the folder they stand in has not agreed to anything in it yet."""
    (tmp_path / "pip.py").write_text("open('ran', 'w').close()\n")
    monkeypatch.chdir(tmp_path)
    with pytest.raises(plugin_needs.PipFailed):
        plugin_needs.plan(["no-such-package"], tmp_path)
    assert not (tmp_path / "ran").exists()
