"""Programs that our own code starts: by absolute path, with an environment of our own.

Neither the folder we work in nor what a person or a command left in the environment decides what runs or how.
"""

import os
import shutil
from functools import lru_cache
from types import MappingProxyType

#: A program reads no configuration from here, and loads nothing that somebody named.
CLEAN_ENVIRONMENT = MappingProxyType({"PATH": os.defpath, "LANG": "C.UTF-8", "HOME": "/nonexistent"})


def find_program(name: str) -> str | None:
    """The absolute path of a program, looked up once; None: it is not installed."""
    return _find(name, os.environ.get("PATH", os.defpath))


@lru_cache(maxsize=32)
def _find(name: str, path: str) -> str | None:
    """Folders that are named relative to wherever we are do not count."""
    folders = [folder for folder in path.split(os.pathsep) if os.path.isabs(folder)]
    return shutil.which(name, path=os.pathsep.join(folders)) if folders else None
