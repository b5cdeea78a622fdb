"""What commands behind the walls know of the person's own settings of git, which lie in the closed home.

Only what changes what a commit says or how it is made, and nothing that runs a program of somebody's choosing.
"""

import hashlib
import logging
import re
import subprocess
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from hermes_constants.ordinary_files import expand_home
from tools.files.programs import CLEAN_ENVIRONMENT, find_program

log = logging.getLogger(__name__)

SECONDS = 5
MOST_IGNORED = 100_000  # characters
#: Where a command finds the person's own list of ignored files.
IGNORED = "/run/hermes-props/ignore-{name}"
KEPT = re.compile(
    r"user\.(name|email|signingkey)|(commit|tag)\.gpgsign|init\.defaultbranch|safe\.directory"
    r"|core\.(autocrlf|eol|safecrlf|quotepath|ignorecase|precomposeunicode|whitespace|commentchar|abbrev|symlinks)"
    r"|pull\.(rebase|ff)|rebase\.(autosquash|autostash|updaterefs)|merge\.(ff|conflictstyle|renamelimit)"
    r"|push\.(default|autosetupremote|followtags)|fetch\.prune(tags)?|branch\.(autosetupmerge|autosetuprebase|sort)"
    r"|diff\.(algorithm|renames|renamelimit|mnemonicprefix|noprefix)|(status|advice|color|column|i18n)\.[\w.]+"
    r"|log\.(date|abbrevcommit|decorate|follow)|rerere\.(enabled|autoupdate)|tag\.sort"
)
#: These run a program, and so count only with the value that they usually have.
KEPT_PROGRAMS = re.compile(r"filter\.lfs\.(clean|smudge|process|required)\n(git-lfs [\w%. -]*|true|false)")
#: Other worktrees are out of sight, which is no reason to forget them.
ADDED = '[gc]\n\tworktreePruneExpire = "never"\n'


@dataclass(frozen=True, slots=True)
class GitSettings:
    name: str  # of these settings; the same for all folders for which they are the same
    text: str
    ignored: str  # the person's own list of files that git leaves alone


@lru_cache(maxsize=64)
def read_git_settings(root: str) -> GitSettings:
    """The person's settings as they hold in a folder: they may depend on where a repository lies."""
    listed = _list(root)
    kept = [entry for entry in listed if KEPT.fullmatch(entry[0]) or KEPT_PROGRAMS.fullmatch("\n".join(entry))]
    named = dict(listed).get("core.excludesfile", "")
    path = Path(expand_home(named)) if named else Path.home() / ".config" / "git" / "ignore"
    try:
        ignored = path.read_text(errors="replace")[:MOST_IGNORED] if path.is_file() else ""
    except OSError:
        ignored = ""
    lines = [ADDED, *(_write(name, value) for name, value in kept)]
    name = hashlib.sha256("".join([*lines, ignored]).encode()).hexdigest()[:12]
    lines.append(_write("core.excludesfile", IGNORED.format(name=name)))
    return GitSettings(name, "".join(lines), ignored)


def _list(root: str) -> list[tuple[str, str]]:
    git = find_program("git")
    if git is None:
        return []
    env = {**CLEAN_ENVIRONMENT, "HOME": str(Path.home())}
    ask = [git, "-C", root, "config", "--global", "--includes", "--list", "-z"]
    try:
        done = subprocess.run(ask, capture_output=True, env=env, timeout=SECONDS, check=False)
    except (OSError, subprocess.TimeoutExpired) as problem:
        log.warning("git does not tell the person's settings: %s", problem)
        return []
    entries = done.stdout.decode("utf-8", "replace").split("\0")
    return [(name, value or "true") for entry in entries if entry for name, _, value in [entry.partition("\n")]]


def _write(name: str, value: str) -> str:
    """One setting in the form of the file."""
    section, _, key = name.rpartition(".")
    outer, _, inner = section.partition(".")
    head = f'[{outer} "{inner}"]' if inner else f"[{outer}]"
    quoted = value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return f'{head}\n\t{key} = "{quoted}"\n'
