"""The dependency gate: `src` imports what pyproject.toml declares, and the other way round; exits 1 and names the rest.

An import statement needs a core dependency; in the folder of a platform it may also be one that its list names. What
is imported by its name, at the first use, may come with an extra; so may what such a module of ours imports, and what
modules do that nobody else of ours asks for.
"""

import ast
import re
import runpy
import sys
import tomllib
from collections.abc import Iterable, Iterator, Mapping
from importlib.metadata import packages_distributions
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parent.parent
#: Calls that import the module whose name they are given.
LATE_IMPORTS = {"import_module", "load_sdk"}
REQUIREMENT = re.compile(r"[\w.-]+>=[\d.]+")
#: Tools that run beside the code: nothing in `src` imports them.
TOOLS = "dev"
#: Ours, beside `src`: its command is not offered where it is not installed.
BESIDE = {"hermes_lab"}


class Imports(NamedTuple):
    """Names of modules of others, and where each stands."""

    statements: dict[str, str]
    by_name: dict[str, str]
    texts: set[str]  # every text constant: a name that is kept in one may be imported later


def read_declared(dependencies: Iterable[str], extras: Mapping[str, Iterable[str]]) -> tuple[set[str], set[str]]:
    """The distributions of the core, and those of the extras that users may choose."""
    chosen = [line for name, lines in extras.items() if name != TOOLS for line in lines]
    return _read_names(dependencies), _read_names(chosen)


def read_imports(root: Path) -> Imports:
    ours = {path.stem for path in root.iterdir()} | set(sys.stdlib_module_names) | BESIDE
    found = Imports({}, {}, set())
    trees = {path: ast.parse(path.read_text(encoding="utf-8")) for path in sorted(root.rglob("*.py"))}
    late = _find_late({_name_module(root, path): tree for path, tree in trees.items()})
    for path, tree in trees.items():
        listed = _name_module(root, path) in late or any(
            (folder / "requirements.txt").exists() for folder in path.parents if folder.is_relative_to(root)
        )
        stated = found.by_name if listed else found.statements
        for node in ast.walk(tree):
            where = f"{path.relative_to(root)}:{getattr(node, 'lineno', 0)}"
            stated.update((name, where) for name in _top_names(_named_by_statement(node)) if name not in ours)
            found.by_name.update((name, where) for name in _top_names(_named_by_call(node)) if name not in ours)
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                found.texts.add(node.value)
    return found


def _name_module(root: Path, path: Path) -> str:
    return ".".join(path.relative_to(root).with_suffix("").parts)


def _find_late(trees: Mapping[str, ast.AST]) -> set[str]:
    """Modules of ours that are imported by their name, and those that nobody but these imports."""
    late = {name for tree in trees.values() for node in ast.walk(tree) for name in _named_by_call(node)}
    importers: dict[str, set[str]] = {}
    for importer, tree in trees.items():
        for name in {name for node in ast.walk(tree) for name in _named_by_statement(node)} & trees.keys():
            importers.setdefault(name, set()).add(importer)
    while more := {name for name, found in importers.items() if found <= late} - late:
        late |= more
    return late


def find_faults(imports: Imports, core: set[str], extras: set[str], owners: Mapping[str, list[str]]) -> Iterator[str]:
    """`owners`: the distributions that bring a module. One that is not installed is taken to be named like it."""
    for name, where in imports.statements.items():
        if not _owned_by(name, owners) & core:
            yield f"{where}: {name} is imported, and no core dependency brings it"
    for name, where in imports.by_name.items():
        if not _owned_by(name, owners) & (core | extras):
            yield f"{where}: {name} is imported by its name, and neither the core nor an extra brings it"
    used = {*imports.statements, *imports.by_name, *imports.texts}
    brought = {owner for name in used for owner in _owned_by(name, owners)}
    brought |= _read_names(text for text in imports.texts if REQUIREMENT.fullmatch(text))  # brought for others
    for distribution in sorted((core | extras) - brought):
        yield f"pyproject.toml: {distribution} is declared, and nothing imports it"


def _owned_by(module: str, owners: Mapping[str, list[str]]) -> set[str]:
    return {_normalize(owner) for owner in owners.get(module) or [module]}


def _named_by_statement(node: ast.AST) -> list[str]:
    if isinstance(node, ast.Import):
        return [alias.name for alias in node.names]
    return [node.module] if isinstance(node, ast.ImportFrom) and node.module and not node.level else []


def _named_by_call(node: ast.AST) -> list[str]:
    if not isinstance(node, ast.Call):
        return []
    called = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
    named = [part.value for part in node.args[:1] if isinstance(part, ast.Constant)]
    return [name for name in named if isinstance(name, str) and called in LATE_IMPORTS]


def _top_names(modules: Iterable[str]) -> Iterator[str]:
    return (module.partition(".")[0] for module in modules)


def _read_names(lines: Iterable[str]) -> set[str]:
    return {_normalize(re.split(r"[^\w.-]", line, maxsplit=1)[0]) for line in lines}


def _normalize(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def main() -> int:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    extras_of = runpy.run_path(str(ROOT / "setup.py"))["read_extras"]
    core, extras = read_declared(project["dependencies"], extras_of())
    faults = list(find_faults(read_imports(ROOT / "src"), core, extras, packages_distributions()))
    print("\n".join(faults) if faults else "dependency gate: what is imported is declared")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
