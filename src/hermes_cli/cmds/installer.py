"""How packages get into the environment that Hermes runs in, if it is ours to change."""

import os
import shutil
import sys
import sysconfig
from importlib.machinery import PathFinder
from pathlib import Path


def find_installer() -> list[str]:
    """The command that installs the lines behind it; empty: the environment is not ours to change."""
    place = Path(sysconfig.get_path("purelib"))
    is_managed = Path(sysconfig.get_path("stdlib"), "EXTERNALLY-MANAGED").exists() and sys.prefix == sys.base_prefix
    if is_managed or not os.access(place, os.W_OK):
        return []
    if PathFinder.find_spec("pip") is not None:  # by the folders alone: other finders load things for it
        return [sys.executable, "-P", "-m", "pip", "install", "--quiet"]
    uv = shutil.which("uv")
    return [uv, "pip", "install", "--quiet", "--python", sys.executable] if uv else []
