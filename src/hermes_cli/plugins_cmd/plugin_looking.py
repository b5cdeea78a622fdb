"""What a plugin would register and what it needs, read from its manifest and its code; nothing of it is run."""

import ast
import importlib.util
import sys
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from hermes_base.text.harmless import clean_name
from hermes_cli.plugins.manifest_fields import read_fields
from hermes_cli.plugins.plugin_sources import read_manifest_fields
from hermes_cli.plugins_cmd.plugin_fetching import LEFT_OUT

_MOST_FILES, _MOST_CHARS = 2_000, 1_000_000
_REGISTER = "register_"
#: Calls of this form that are none of the host's.
_NOT_OURS = frozenset({"register_at_fork", "register_namespace", "register_error"})
#: Keywords that hold the name of what is registered.
_NAMES = ("name", "hook_name", "kind", "key", "action_id")
_ACCESS_WORDS = frozenset({"allow_all_env", "enforces_own_access_policy"})
#: What code can do that has these modules, for somebody who decides whether to trust it.
POWERS: Mapping[str, frozenset[str]] = {
    "starts programs": frozenset({"subprocess", "pty"}),
    "speaks over the network": frozenset(
        {"socket", "http", "urllib", "httpx", "httpx2", "requests", "aiohttp", "websockets", "smtplib", "imaplib"}
    ),
    "calls machine code": frozenset({"ctypes", "cffi"}),
}


@dataclass(slots=True)
class PluginLook:
    """What can be seen of a plugin without running it."""

    registers: dict[str, set[str]] = field(default_factory=dict)  # kind -> names; empty: only running it shows
    imports: set[str] = field(default_factory=set)  # modules that it cannot do without
    may_import: set[str] = field(default_factory=set)  # where their absence is provided for, or in functions
    overrides_tools: bool = False
    has_own_access: bool = False
    unread: list[str] = field(default_factory=list)  # files that are no Python

    def add(self, kind: str, name: str = "") -> None:
        names = self.registers.setdefault(kind, set())
        if name:
            names.add(name)

    def describe(self) -> list[str]:
        """A line for each kind."""
        return [describe_kind(kind, sorted(self.registers[kind])) for kind in sorted(self.registers)]

    def find_powers(self) -> list[str]:
        used = self.imports | self.may_import
        return [power for power, modules in POWERS.items() if used & modules]


def describe_kind(kind: str, names: Iterable[str]) -> str:
    """`tool: roll_dice`, in the words of the page about plugins."""
    shown = ", ".join(map(clean_name, names))
    return f"{kind.replace('_', ' ')}: {shown or 'names show when it runs'}"


def look(folder: Path) -> PluginLook:
    """Look at a plugin's folder, or at the one file of a module."""
    found = PluginLook()
    fields = (read_manifest_fields(folder) if folder.is_dir() else None) or {}
    for name, value in {**fields, **read_fields(fields).lists}.items():
        if str(name).startswith("provides_") and isinstance(value, list):
            for provided in value:
                found.add(str(name).removeprefix("provides_").removesuffix("s"), str(provided))
    own = {path.stem for path in folder.iterdir()} | {folder.name} if folder.is_dir() else {folder.stem}
    for path in _list_modules(folder):
        try:
            tree = ast.parse(path.read_text(encoding="utf-8-sig")[:_MOST_CHARS])
        except (OSError, ValueError, SyntaxError, RecursionError, MemoryError):
            found.unread.append(path.name)
            continue
        _look_at(tree, own, found)
    found.may_import -= found.imports
    return found


def find_missing(modules: Iterable[str]) -> list[str]:
    """Those that cannot be imported here; none is."""
    return sorted(name for name in modules if name not in sys.modules and not _is_installed(name))


def _is_installed(name: str) -> bool:
    try:
        return importlib.util.find_spec(name) is not None
    except (ImportError, ValueError):
        return False


def _list_modules(folder: Path) -> list[Path]:
    if not folder.is_dir():
        return [folder]
    found = []
    for path in sorted(folder.rglob("*.py")):
        inner = path.relative_to(folder).parts
        is_test = inner[0] in ("tests", "test") or path.name.startswith(("test_", "conftest"))
        if not is_test and not LEFT_OUT & set(inner):
            found.append(path)
    return found[:_MOST_FILES]


def _look_at(tree: ast.Module, own: set[str], found: PluginLook) -> None:
    texts = {
        target.id: node.value.value
        for node in tree.body
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)
        for target in node.targets
        if isinstance(target, ast.Name)
    }
    known = own | set(sys.stdlib_module_names) - set().union(*POWERS.values())
    found.imports |= set(_list_imports(tree.body, guarded=False)) - known
    found.may_import |= set(_list_imports(tree.body, guarded=True)) - known
    for node in ast.walk(tree):
        if isinstance(node, ast.Call):
            _look_at_call(node, texts, found)
        words = {getattr(node, "id", None), getattr(node, "attr", None), getattr(node, "arg", None)}
        text = node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) else None
        found.has_own_access |= bool(_ACCESS_WORDS & {*words, text, getattr(node, "name", None)})


def _look_at_call(node: ast.Call, texts: Mapping[str, str], found: PluginLook) -> None:
    called = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
    if not called.startswith(_REGISTER) or called in _NOT_OURS:
        return
    named = {keyword.arg: keyword.value for keyword in node.keywords}
    value = next((named[name] for name in _NAMES if name in named), node.args[0] if node.args else None)
    found.add(called.removeprefix(_REGISTER), _read_text(value, texts))
    wish = named.get("override")
    found.overrides_tools |= wish is not None and not (isinstance(wish, ast.Constant) and not wish.value)


def _read_text(node: Any, texts: Mapping[str, str]) -> str:
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return node.value
    return texts.get(node.id, "") if isinstance(node, ast.Name) else ""


def _list_imports(body: Iterable[ast.stmt], *, guarded: bool, inside: bool = False) -> Iterator[str]:
    """Top names of the modules that these statements import, at once or (guarded) perhaps."""
    for node in body:
        if isinstance(node, ast.Import) and inside == guarded:
            yield from (alias.name.partition(".")[0] for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and inside == guarded and node.module and not node.level:
            yield node.module.partition(".")[0]
        elif isinstance(node, ast.Try | ast.If | ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef | ast.With):
            within = inside or not isinstance(node, ast.ClassDef | ast.With)
            parts = [getattr(node, name, []) for name in ("body", "orelse", "finalbody")]
            parts += [handler.body for handler in getattr(node, "handlers", [])]
            for part in parts:
                yield from _list_imports(part, guarded=guarded, inside=within)
