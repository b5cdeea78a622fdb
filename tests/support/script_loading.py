"""Loads what stands in the folder `scripts`, and other files that belong to no package."""

import importlib.util
from pathlib import Path
from types import ModuleType

FOLDER = Path(__file__).resolve().parents[2] / "scripts"


def load_script(name: str) -> ModuleType:
    return load_file(FOLDER / f"{name}.py")


def load_file(path: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
