"""After a failed run of tests: tries what failed alone, three times, and names it. A fault shows again; what was only
late beside everything else does not, and stands in the output as unsteady. More than three failed tests are a fault.

    python scripts/look_again.py
"""

import json
import subprocess
import sys
from pathlib import Path

NOTED = Path(".pytest_cache/v/cache/lastfailed")
MOST = 3


def main() -> int:
    failed = list(json.loads(NOTED.read_text())) if NOTED.exists() else []
    if not 0 < len(failed) <= MOST:
        return say(f"{len(failed)} tests are noted as failed: that is looked at by a person.")
    for _ in range(3):
        if subprocess.run([sys.executable, "-m", "pytest", *failed, "-p", "no:cacheprovider"]).returncode:
            return say("It fails alone, too.")
    NOTED.unlink()  # so that the next run of other tests is not charged with them
    print(*(f"unsteady: {name}" for name in failed), sep="\n")
    return 0


def say(what: str) -> int:
    print(f"look again: {what}", file=sys.stderr)
    return 1


sys.exit(main())
