"""How often the model read each skill: counted beside the skills, for plugins that tidy them up."""

import json
import logging
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from hermes_base.errors import ConfigProblem
from hermes_cli.config.own_files import hold_folder, read_text, replace_file
from hermes_constants import get_hermes_home

log = logging.getLogger(__name__)

FILE = ".usage.json"


def load_usage() -> dict[str, dict[str, Any]]:
    """Skill -> `use_count` and `last_used_at`; what was never read is not there."""
    return _read(get_hermes_home() / "skills" / FILE)


def note_use(root: Path, name: str) -> None:
    """One more reading of a skill. A count that cannot be kept is no reason not to read."""
    try:
        with hold_folder(root):
            usage = _read(root / FILE)
            count = usage.get(name, {}).get("use_count")
            usage[name] = {
                "use_count": (count if isinstance(count, int) else 0) + 1,
                "last_used_at": datetime.now(UTC).isoformat(timespec="seconds"),
            }
            replace_file(root / FILE, json.dumps(usage, indent=2) + "\n")
    except OSError as problem:
        log.info("the use of a skill is not counted: %s", problem.strerror)


def _read(path: Path) -> dict[str, dict[str, Any]]:
    try:
        found = json.loads(read_text(path) or "{}")
    except (ValueError, ConfigProblem):
        return {}  # it is counted anew
    return (
        {str(name): facts for name, facts in found.items() if isinstance(facts, dict)}
        if isinstance(found, dict)
        else {}
    )
