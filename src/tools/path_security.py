"""`validate_within_dir`: whether a path stays inside a folder, by where both really are (G7)."""

import os
from pathlib import Path

from tools.files.roots import is_inside


def validate_within_dir(path: Path | str, root: Path | str) -> str | None:
    """What is wrong, in a sentence; None: it is inside. Links on the way are followed."""
    try:
        real, folder = os.path.realpath(path), os.path.realpath(root)
    except (OSError, ValueError) as problem:
        return f"{path} cannot be resolved: {problem}."
    return None if is_inside(real, folder) else f"{path} leads out of {root}."
