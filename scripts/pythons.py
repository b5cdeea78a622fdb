"""Runs the quick tests on every Python from 3.11 on that is on this machine; exits 1 when one of them fails.

Looks along PATH and where pyenv and uv keep theirs. Each has an environment of its own in `build/pythons`.
"""

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
ENVIRONMENTS = ROOT / "build" / "pythons"
OLDEST = (3, 11)
#: Folders without browsers, and almost without processes: a minute or two on each Python.
TESTS = ("tests/base", "tests/state", "tests/lab", "tests/plugins", "tests/test_frame.py")
ASK_VERSION = "import sys; print(*sys.version_info[:2])"


def list_candidates() -> Iterator[Path]:
    for folder in os.environ.get("PATH", "").split(os.pathsep):
        yield from sorted(Path(folder).glob("python3.[0-9]*[0-9]"))
    yield from sorted(Path.home().glob(".pyenv/versions/*/bin/python"), reverse=True)
    yield from sorted(Path.home().glob(".local/share/uv/python/*/bin/python3"), reverse=True)


def read_version(python: Path) -> tuple[int, ...]:
    """Empty for what does not run, such as the shim of a Python that is not chosen."""
    try:
        asked = subprocess.run([python, "-c", ASK_VERSION], capture_output=True, text=True, timeout=30, check=True)
    except (OSError, subprocess.SubprocessError):
        return ()
    return tuple(map(int, asked.stdout.split()))


def find_pythons() -> dict[tuple[int, ...], Path]:
    """The first one of each version."""
    found: dict[tuple[int, ...], Path] = {}
    for candidate in list_candidates():
        version = read_version(candidate)
        if version >= OLDEST:
            found.setdefault(version, candidate)
    return dict(sorted(found.items()))


def make_environment(python: Path, folder: Path) -> Path:
    """With what the tests need, in the versions that were tested together."""
    made = folder / "bin" / "python"
    if not made.exists():
        subprocess.run([python, "-m", "venv", folder], check=True)
    wanted = ["-c", "constraints.txt", "-e", ".[anthropic,dev,mcp]", "-e", "./lab"]
    subprocess.run([made, "-m", "pip", "install", "-q", "--disable-pip-version-check", *wanted], cwd=ROOT, check=True)
    return made


def run_tests(version: tuple[int, ...], python: Path) -> bool:
    name = ".".join(map(str, version))
    print(f"--- Python {name}", flush=True)
    try:
        made = make_environment(python, ENVIRONMENTS / name)
    except subprocess.CalledProcessError as problem:
        print(f"no environment could be made: {problem}")
        return False
    tests = [str(made), "-m", "pytest", "-m", "not soak", "-n", "2", "-p", "no:cacheprovider", *TESTS]
    return subprocess.run(tests, cwd=ROOT, check=False).returncode == 0


def main() -> int:
    found = find_pythons()
    for version, python in found.items():
        print(f"found Python {'.'.join(map(str, version))}: {python}")
    went = {version: run_tests(version, python) for version, python in found.items()}
    for version, well in went.items():
        print(f"Python {'.'.join(map(str, version))}: {'passed' if well else 'FAILED'}")
    return 0 if went and all(went.values()) else 1


if __name__ == "__main__":
    sys.exit(main())
