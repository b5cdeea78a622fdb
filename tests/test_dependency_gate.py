"""The dependency gate finds what is imported and not declared, and what is declared and not imported."""

import re
import runpy
import tomllib
from pathlib import Path

import pytest
from script_loading import load_script

ROOT = Path(__file__).parents[1]
gate = load_script("dependency_gate")
#: What is installed: a module whose distribution has another name, and one of the same name.
OWNERS = {"re2": ["google-re2"], "httpx2": ["httpx2"]}


def find_faults(folder: Path, code: str, *, core: set[str], extras: set[str]) -> list[str]:
    (folder / "ours").mkdir()
    (folder / "ours" / "__init__.py").write_text(code)
    return list(gate.find_faults(gate.read_imports(folder), core, extras, OWNERS))


@pytest.mark.parametrize(
    ("code", "core", "extras"),
    [
        ("import os\nfrom ours import thing\nfrom . import other", set(), set()),
        ("import re2._re2\nfrom httpx2 import Client", {"google-re2", "httpx2"}, set()),
        ("importlib.import_module('httpx2')", set(), {"httpx2"}),
        ("ENGINE = 'httpx2'", set(), {"httpx2"}),
        ("load_sdk('never_installed')", set(), {"never-installed"}),
    ],
)
def test_what_is_declared_may_be_imported(tmp_path: Path, code: str, core: set[str], extras: set[str]) -> None:
    assert find_faults(tmp_path, code, core=core, extras=extras) == []


@pytest.mark.parametrize(
    ("code", "core", "extras", "told"),
    [
        ("import re2", set(), set(), "ours/__init__.py:1: re2 is imported, and no core"),
        ("def later():\n    import httpx2", set(), {"httpx2"}, "ours/__init__.py:2: httpx2 is imported, and no core"),
        ("load_sdk('httpx2')", set(), set(), "httpx2 is imported by its name, and neither"),
        ("import os", {"httpx2"}, set(), "pyproject.toml: httpx2 is declared, and nothing imports it"),
        ("import os", set(), {"httpx2"}, "pyproject.toml: httpx2 is declared, and nothing imports it"),
    ],
)
def test_the_rest_is_named(tmp_path: Path, code: str, core: set[str], extras: set[str], told: str) -> None:
    faults = find_faults(tmp_path, code, core=core, extras=extras)
    assert len(faults) == 1
    assert told in faults[0]


def test_the_names_of_a_declaration_are_read() -> None:
    declared = gate.read_declared(["ruamel.yaml>=0.18", "a_b[c]==1"], {"x": ["y>1"], "dev": ["z"]})
    assert declared == ({"ruamel-yaml", "a-b"}, {"y"})


def test_a_module_that_is_loaded_late_may_import_what_an_extra_brings(tmp_path: Path) -> None:
    (tmp_path / "late.py").write_text("import httpx2")
    assert find_faults(tmp_path, "import_module('late')", core=set(), extras={"httpx2"}) == []


@pytest.mark.parametrize("module", ["adapter.py", "server/link.py"])
def test_a_platform_may_import_what_its_folder_lists(tmp_path: Path, module: str) -> None:
    path = tmp_path / "ours" / module
    path.parent.mkdir(parents=True)
    (tmp_path / "ours" / "requirements.txt").write_text("httpx2>=2")
    path.write_text("import httpx2")
    assert list(gate.find_faults(gate.read_imports(tmp_path), set(), {"httpx2"}, OWNERS)) == []


def test_every_declared_dependency_is_pinned() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    extras = runpy.run_path(str(ROOT / "setup.py"))["read_extras"]()
    declared = [*project["dependencies"], *(line for lines in extras.values() for line in lines)]
    pinned = {line.partition("==")[0] for line in (ROOT / "constraints.txt").read_text().splitlines()}
    assert {re.sub(r"[-_.]+", "-", re.split(r"[^\w.-]", line)[0]) for line in declared} <= pinned


def test_so_may_a_module_that_only_such_a_one_imports(tmp_path: Path) -> None:
    (tmp_path / "late.py").write_text("import beside")
    (tmp_path / "beside.py").write_text("import httpx2")
    assert find_faults(tmp_path, "import_module('late')", core=set(), extras={"httpx2"}) == []
    (tmp_path / "early.py").write_text("from beside import thing")
    assert len(list(gate.find_faults(gate.read_imports(tmp_path), set(), {"httpx2"}, OWNERS))) == 1
