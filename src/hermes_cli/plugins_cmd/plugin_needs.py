"""What a plugin needs beside itself: Python packages, installed only after a question and never at the cost of ours.

Ready-made packages (wheels) only, since a source package runs code while it is built; all that is installed stays at
its version; and each wheel is looked at before it is unpacked: none brings modules of ours, or code for every start.
"""

import importlib
import json
import os
import re
import shlex
import subprocess
import sys
import sysconfig
import tomllib
import zipfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from importlib import metadata
from pathlib import Path
from types import MappingProxyType
from typing import Any

from hermes_base.errors import HermesError
from hermes_cli.cmds.installer import find_installer
from hermes_cli.config.lent_env import exported_environment
from hermes_cli.plugins.plugin_sources import read_manifest_fields
from hermes_cli.plugins_cmd.plugin_looking import PluginLook, find_missing

#: What plugins take for granted: the module and the package that brings it (the extra `plugins`).
TAKEN_FOR_GRANTED: Mapping[str, str] = MappingProxyType(
    {
        "yaml": "pyyaml>=6",
        "httpx": "httpx>=0.28",
        "aiohttp": "aiohttp>=3",
        "requests": "requests>=2",
        "websockets": "websockets>=13",
        "pydantic": "pydantic>=2",
        "fastapi": "fastapi>=0.115",
        "cryptography": "cryptography>=43",
        "PIL": "pillow>=11",
        "certifi": "certifi>=2024.7",
        "jinja2": "jinja2>=3",
        "tenacity": "tenacity>=9",
        "croniter": "croniter>=6",
        "psutil": "psutil>=6",
        "dotenv": "python-dotenv>=1",
        "packaging": "packaging>=24",
        "jwt": "pyjwt>=2",
        "markdown": "markdown>=3",
    }
)
_FIELDS = ("pip_dependencies", "dependencies", "requirements")
_LINE = re.compile(
    r"(?P<name>[A-Za-z0-9](?:[\w.-]*[A-Za-z0-9])?)\s*(?:\[[\w,. -]*\])?\s*"
    r"\(?(?:[=<>!~]=?=?\s*[\w.*+!-]+\s*,?\s*)*\)?\s*(?:;.*)?",
    re.ASCII,
)
_OURSELVES = "hermes-agent"
_SECONDS = 600
_LAST_LINES = 8
#: Folders that a wheel keeps apart from its modules, as `sysconfig` calls where they go.
_SCHEMES: Mapping[str, str] = MappingProxyType(
    {"purelib": "purelib", "platlib": "platlib", "scripts": "scripts", "headers": "include", "data": "data"}
)
#: pip that starts no program: to build a package is to start one, and where a package names another by its address,
#: pip builds that whatever its options say.
_WITHOUT_PROGRAMS = """
import runpy, sys
def watch(event, _):
    if event in ("subprocess.Popen", "os.exec", "os.fork", "os.forkpty", "os.posix_spawn", "os.system"):
        raise PermissionError("a package would be built here, which runs its code")
sys.addaudithook(watch)
sys.argv[0] = "pip"
runpy.run_module("pip", run_name="__main__", alter_sys=True)
"""


@dataclass(slots=True)
class PluginNeeds:
    """Lines that a package index understands, and those that are left to the owner."""

    lines: list[str] = field(default_factory=list)
    refused: list[str] = field(default_factory=list)  # addresses, paths and options: not for us to follow
    unlisted: list[str] = field(default_factory=list)  # modules that the code imports and nobody names


class PipFailed(HermesError):
    """pip could not do what it was asked."""


# --- what it needs


def read_needs(folder: Path, found: PluginLook) -> PluginNeeds:
    """What a plugin's files name that is not installed, and what its code takes for granted."""
    needs = PluginNeeds()
    for line in dict.fromkeys(list_lines(folder)):
        plain = _LINE.fullmatch(line)
        if plain is None:
            needs.refused.append(line)
        elif _normalize(plain["name"]) != _OURSELVES and not _is_satisfied(line, plain["name"]):
            needs.lines.append(line)
    named = {_normalize(re.split(r"[^\w.-]", line, maxsplit=1)[0]) for line in needs.lines}
    for module in find_missing(found.imports):
        usual = TAKEN_FOR_GRANTED.get(module, "")
        if usual and _normalize(usual.partition(">")[0]) not in named:
            needs.lines.append(usual)
        elif not usual and _normalize(module) not in named:
            needs.unlisted.append(module)
    return needs


def list_lines(folder: Path) -> Iterator[str]:
    """What a plugin's files name as its packages, line by line."""
    fields = read_manifest_fields(folder) or {}
    for name in _FIELDS:
        yield from _flatten(fields.get(name))
    for line in _read_text(folder / "requirements.txt").splitlines():
        plain = line.partition(" #")[0].strip()
        if plain and not plain.startswith("#"):
            yield plain
    try:
        project = tomllib.loads(_read_text(folder / "pyproject.toml")).get("project", {})
    except tomllib.TOMLDecodeError:
        project = {}
    yield from _flatten(project.get("dependencies") if isinstance(project, dict) else None)


def _flatten(value: Any) -> Iterator[str]:
    """Lines of a list, or of the lists in a mapping under the names that people give to those of Python."""
    if isinstance(value, str):
        value = value.splitlines()  # one package, or one a line
    if isinstance(value, list):
        yield from (str(line).strip() for line in value if isinstance(line, str) and line.strip())
    elif isinstance(value, Mapping):
        for name in ("pip", "python", "packages"):
            yield from _flatten(value.get(name))


def _read_text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8-sig")
    except (OSError, ValueError):
        return ""


def _is_satisfied(line: str, name: str) -> bool:
    """Whether any version will do and one is there; all else is for pip to judge."""
    try:
        metadata.version(name)
    except metadata.PackageNotFoundError:
        return False
    return re.fullmatch(r"[\w.-]+", line) is not None


def _normalize(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


# --- what would be installed


@dataclass(frozen=True, slots=True)
class PackagePlan:
    """What pip would install: names with versions, as `name==version`."""

    packages: tuple[str, ...]
    sources: bool  # some are built here, which runs their code


def plan(lines: Sequence[str], scratch: Path, *, sources: bool = False, free: Iterable[str] = ()) -> PackagePlan:
    """Ask pip, which changes nothing. All that is installed stays as it is, but for the packages in `free`."""
    report = scratch / "report.json"
    upgrade = ["--upgrade"] if free else []
    limits = _limit(scratch, sources, free)
    words = ["install", "--dry-run", "--report", str(report), *upgrade, *limits, "--", *lines]
    _run_pip(words, builds=sources)
    install = json.loads(report.read_text(encoding="utf-8")).get("install", [])
    return PackagePlan(tuple(f"{it['metadata']['name']}=={it['metadata']['version']}" for it in install), sources)


def install(found: PackagePlan, scratch: Path, free: Iterable[str] = ()) -> None:
    """Install what was planned: fetched as wheels, looked at, and only then unpacked."""
    wheels = scratch / "wheels"
    limits = _limit(scratch, found.sources, free)
    _run_pip(["wheel", "--no-deps", "--wheel-dir", str(wheels), *limits, "--", *found.packages], builds=found.sources)
    brought = sorted(wheels.glob("*.whl"))
    for wheel in brought:
        check_wheel(wheel)
    _run_pip(["install", "--no-index", "--no-deps", *(["--upgrade"] if free else []), "--", *map(str, brought)])
    importlib.invalidate_caches()


def check_wheel(wheel: Path) -> None:
    """HermesError when it would put modules of ours, code that runs at every start of Python, or files in the place of
    another package's."""
    ours = {path.stem for path in Path(__file__).resolve().parents[2].iterdir() if path.suffix in ("", ".py")}
    modules = {os.path.realpath(sysconfig.get_path(scheme)) for scheme in ("purelib", "platlib")}
    own = set(_list_own_places(wheel.name.partition("-")[0]))
    for name, place in _list_places(wheel):
        top = next((os.path.relpath(place, folder) for folder in modules if place.startswith(folder + os.sep)), "")
        module = top.partition(os.sep)[0].partition(".")[0]
        fault = ""
        if name.lower().endswith(".pth") or module in ("sitecustomize", "usercustomize"):
            fault = f"{name}, which runs at every start of Python"
        elif module in ours:
            fault = f"a module {module}, which is one of Hermes itself"
        elif os.path.lexists(place) and place not in own:
            fault = f"{name}, which would replace {place}"
        if fault:
            raise HermesError(f"{wheel.name} brings {fault}.", kept="Nothing was installed.")


def _list_places(wheel: Path) -> Iterator[tuple[str, str]]:
    """What a wheel brings, and where it would be put: also what it names as scripts, which are made for it."""
    with zipfile.ZipFile(wheel) as archive:
        names = [name for name in archive.namelist() if not name.endswith("/")]
        points = [name for name in names if name.endswith(".dist-info/entry_points.txt")]
        lines = [line.strip() for name in points for line in archive.read(name).decode("utf-8", "replace").splitlines()]
    for name in names:
        parts = [part for part in name.split("/") if part not in ("", ".")]
        is_apart = len(parts) > 2 and parts[0].endswith(".data")
        scheme, inner = (_SCHEMES.get(parts[1], "data"), parts[2:]) if is_apart else ("purelib", parts)
        place = os.path.join(sysconfig.get_path(scheme), *inner)
        yield name, os.path.join(os.path.realpath(os.path.dirname(place)), os.path.basename(place))
    group = ""
    for line in lines:
        group = line.strip("[] ") if line.startswith("[") else group
        script = line.partition("=")[0].strip()
        if group in ("console_scripts", "gui_scripts") and script and "=" in line:
            yield f"a script {script}", os.path.join(os.path.realpath(sysconfig.get_path("scripts")), script)


def _list_own_places(package: str) -> Iterator[str]:
    """The files of a package as it is installed now: those it may replace."""
    try:
        files = metadata.distribution(package).files or ()
    except metadata.PackageNotFoundError:
        return
    for file in files:
        place = str(file.locate())
        yield os.path.join(os.path.realpath(os.path.dirname(place)), os.path.basename(place))


def _limit(scratch: Path, sources: bool, free: Iterable[str]) -> list[str]:
    """Options that keep pip to wheels and to what is installed."""
    freed = {_normalize(name) for name in free}
    installed = {_normalize(str(dist.name)): dist.version for dist in metadata.distributions() if dist.name}
    limits = scratch / "limits.txt"
    limits.write_text("".join(f"{name}=={version}\n" for name, version in installed.items() if name not in freed))
    return [*([] if sources else ["--only-binary", ":all:"]), "--constraint", str(limits)]


def name_command(lines: Iterable[str]) -> str:
    """The command for people, where it is theirs to run."""
    return shlex.join([sys.executable, "-m", "pip", "install", "--only-binary", ":all:", *lines])


def is_ours_to_change() -> bool:
    """Whether pip is here and may; with another installer the command is the owner's to run."""
    return "-m" in find_installer()


def uninstall(name: str) -> None:
    _run_pip(["uninstall", "--yes", "--", name])
    importlib.invalidate_caches()


def _run_pip(words: Sequence[str], *, builds: bool = False) -> None:
    # `-P`: a file in the folder where we were started must not be taken for pip, or for a module of its.
    start = ["-m", "pip"] if builds else ["-c", _WITHOUT_PROGRAMS]
    command = [sys.executable, "-P", *start, "--no-input", "--disable-pip-version-check", *words]
    env = {name: value for name, value in exported_environment().items() if name != "PYTHONPATH"}
    try:
        done = subprocess.run(
            command,
            env=env,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=_SECONDS,
        )
    except subprocess.TimeoutExpired as problem:
        raise PipFailed(f"pip was not done after {_SECONDS} seconds.") from problem
    if done.returncode:
        said = (*done.stdout.splitlines()[-_LAST_LINES:], *done.stderr.splitlines()[-_LAST_LINES:])
        last = [line for line in said if line.strip()]
        raise PipFailed("pip says: " + "\n".join(last))
