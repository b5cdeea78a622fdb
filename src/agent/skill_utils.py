"""Where skills lie, for plugins that look at the files themselves."""

import os
from collections.abc import Iterator
from pathlib import Path


def get_external_skills_dirs() -> list[Path]:
    """Folders of skills outside the home. There are none: Hermes reads those of the home and of plugins."""
    return []


def iter_skill_index_files(skills_dir: Path | str, filename: str) -> Iterator[Path]:
    """The files of this name below a folder, in order; hidden folders and links to folders are left out."""
    for parent, folders, files in os.walk(skills_dir):
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        if filename in files:
            yield Path(parent, filename)
