"""The size gate: no module, class, function or parameter list grows past its limit, and no two classes have one name;
exits 1 and names what did.

The folders to look through are its arguments.
"""

import ast
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

MODULE, CLASS, FUNCTION, PARAMETERS = 600, 400, 60, 8
#: Signatures that other people's code is written against; they cannot be made smaller here.
FIXED_SIGNATURES = {
    ("agent/auxiliary_client.py", "call_llm"),
    ("agent/context_compressor.py", "__init__"),
    ("agent/video_gen_provider.py", "generate"),
    ("cron/jobs.py", "create_job"),
    ("gateway/platforms/base.py", "build_source"),
    ("hermes_cli/plugins/plugin_context.py", "register_tool"),
    ("hermes_cli/plugins/plugin_context.py", "register_platform"),
    ("model_tools/__init__.py", "handle_function_call"),
    ("tools/registry.py", "register"),
}


def body_lines(node: ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef) -> int:
    """Lines without the docstring."""
    first = node.body[0]
    is_doc = (
        isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant) and isinstance(first.value.value, str)
    )
    doc = (first.end_lineno or 0) - first.lineno + 1 if is_doc else 0
    return (node.end_lineno or 0) - node.lineno + 1 - doc


def count_parameters(node: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    names = [a.arg for a in node.args.posonlyargs + node.args.args + node.args.kwonlyargs]
    return len(names) - (names[:1] in (["self"], ["cls"]))


def find_excess(path: Path, where: str) -> Iterator[str]:
    text = path.read_text(encoding="utf-8")
    lines = len(text.splitlines())
    if lines > MODULE:
        yield f"{where}: a module of {lines} lines (limit {MODULE})"
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.ClassDef) and body_lines(node) > CLASS:
            yield f"{where}:{node.lineno}: class {node.name} has {body_lines(node)} lines (limit {CLASS})"
        if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            continue
        if body_lines(node) > FUNCTION:
            yield f"{where}:{node.lineno}: {node.name} has {body_lines(node)} lines (limit {FUNCTION})"
        if count_parameters(node) > PARAMETERS and (where, node.name) not in FIXED_SIGNATURES:
            yield f"{where}:{node.lineno}: {node.name} takes {count_parameters(node)} parameters (limit {PARAMETERS})"


def find_namesakes(paths: Iterable[Path]) -> Iterator[str]:
    """A name says one thing, wherever it stands. Those with an underscore are nobody else's."""
    places: dict[str, list[str]] = {}
    for path in paths:
        for node in ast.parse(path.read_text(encoding="utf-8")).body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                places.setdefault(node.name, []).append(str(path))
    return (f"class {name} stands in {', '.join(where)}" for name, where in places.items() if len(where) > 1)


def main() -> int:
    roots = {Path(root): sorted(Path(root).rglob("*.py")) for root in sys.argv[1:]}
    found = [
        line
        for root, paths in roots.items()
        for path in paths
        for line in find_excess(path, str(path.relative_to(root)))
    ]
    found += [line for paths in roots.values() for line in find_namesakes(paths)]
    print(*(found or ["size gate: nothing is too large"]), sep="\n")
    if found:
        print("Split what is too large by what it is about; give one of two namesakes a name that says more.")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
