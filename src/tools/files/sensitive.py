"""Which names hold secrets, which files other programs obey, and which become prompts: one map for file tools,
judgement and sandbox."""

import re
from collections.abc import Iterable
from fnmatch import fnmatchcase, translate
from functools import lru_cache
from itertools import pairwise

from hermes_base.prompt_files import CONTEXT_FILES
from hermes_base.secret_files import SECRET_FILES

#: Files and folders that a shell, a login or a program reads by itself and obeys: who writes them decides what runs
#: later. What a project holds as its own code (Makefile, package.json, conftest.py) is not among them, nor is what
#: other machines obey (.github).
STARTUP_NAME = re.compile(
    r"\.(bash(rc|_profile|_login|_logout|_aliases)|profile|login|z(shrc|profile|shenv|login|logout)|inputrc)"
    r"|\.((k|mk|c|tc|xon)shrc|xinitrc|xprofile|xsession(rc)?|pam_environment|direnvrc|envrc|config|local|ssh|hermes)"
    r"|\.(git|gitconfig|husky|vim|vimrc|exrc|nvim|nvimrc|nvim\.lua|emacs|emacs\.d|dir-locals\.el|screenrc|tmux\.conf)"
    r"|\.(pythonrc|pdbrc|gdbinit|lldbinit|irbrc|pryrc|perldb|Rprofile|psqlrc|sqliterc|curlrc|wgetrc|mailcap|mcp\.json)"
    r"|\.(npmrc|yarnrc(\.yml)?|pnpmfile\.cjs|mise\.toml)|sitecustomize\.py|usercustomize\.py|authorized_keys2?"
    r"|LaunchAgents|LaunchDaemons",
    re.IGNORECASE,
)
#: The same for a name that counts in a certain folder only.
STARTUP_PAIR = re.compile(
    r"site-packages/.*\.pth|\.vscode/(tasks|launch|mcp)\.json|\.cursor/mcp\.json|\.claude/settings[^/]*\.json|\.cargo/config(\.toml)?",
    re.IGNORECASE,
)
#: Folders of a project with programs that people and tools run by name.
PROGRAM_PAIR = re.compile(r"node_modules/\.bin|\.?(v|virtual)?env/(bin|Scripts)", re.IGNORECASE)
#: Where the system itself keeps what it obeys.
SYSTEM_PATH = re.compile(
    r"(/private)?/(etc|boot|usr/(local/)?(s?bin|lib(32|64|x32|exec)?)|s?bin|lib(32|64|x32)?|var/spool/cron)(/|$)"
)
#: What is read into prompts, of this program or of others.
PROMPT_NAME = re.compile("|".join(map(re.escape, (*CONTEXT_FILES, "SOUL.md", "SKILL.md"))), re.IGNORECASE)
#: What a pattern such as `id_*` is made to find.
SAMPLES = (".env", ".ssh", ".netrc", "id_rsa", "id_ed25519", "credentials", "shadow", ".bash_history", ".hermes")


@lru_cache(maxsize=64)
def compile_secrets(patterns: tuple[str, ...]) -> tuple[re.Pattern[str], re.Pattern[str]]:
    """What counts as a secret, and what is excepted from that by a leading `!`."""
    chosen = [translate(pattern) for pattern in patterns if not pattern.startswith("!")]
    excepted = [translate(pattern[1:]) for pattern in patterns if pattern.startswith("!")]
    never = r"(?!)"
    return (
        re.compile("|".join(chosen) or never, re.IGNORECASE),
        re.compile("|".join(excepted) or never, re.IGNORECASE),
    )


def is_secret_name(name: str, patterns: Iterable[str] = SECRET_FILES) -> bool:
    """Whether a file or folder of this name is one that holds secrets."""
    chosen, excepted = compile_secrets(tuple(patterns))
    return bool(chosen.match(name)) and not excepted.match(name)


def is_secret_path(path: str, patterns: Iterable[str] = SECRET_FILES) -> bool:
    """Whether a part of a path on the disk is the name of something that holds secrets."""
    patterns = tuple(patterns)
    return any(is_secret_name(part, patterns) for part in path.split("/") if part)


def names_secret(text: str, patterns: Iterable[str] = SECRET_FILES) -> bool:
    """Whether a path, or a pattern for paths, leads to something that holds secrets."""
    patterns = tuple(patterns)
    parts = re.split("[/:]", text)
    # A pattern that is made to find a secret counts, too; `*` and `*.py` are too broad to be that.
    wild = [part for part in parts if not part.startswith("*") and any(char in part for char in "*?[")]
    return any(is_secret_name(part, patterns) for part in parts) or any(
        part.startswith(".") or any(fnmatchcase(name, part) for name in SAMPLES) for part in wild
    )


def names_startup(path: str) -> bool:
    """Whether the path leads to something that other programs obey."""
    return any(STARTUP_NAME.fullmatch(part) for part in path.split("/")) or _has_pair(path, STARTUP_PAIR)


def is_startup_entry(folder: str, name: str) -> bool:
    """The same for one entry of a folder, by its own name and that of the folder."""
    return bool(STARTUP_NAME.fullmatch(name) or STARTUP_PAIR.fullmatch(f"{folder}/{name}"))


def names_program(path: str) -> bool:
    """Whether the path leads to a program of a project's own environment: running it is ordinary, writing it is not."""
    return _has_pair(path, PROGRAM_PAIR)


def is_system_path(path: str) -> bool:
    """Whether an absolute path belongs to what the system itself obeys."""
    return SYSTEM_PATH.match(path) is not None


def names_prompt(path: str) -> bool:
    """Whether the path's last part is a file that becomes a part of prompts, in whatever folder it lies."""
    return PROMPT_NAME.fullmatch(path.rpartition("/")[2]) is not None


def _has_pair(path: str, pairs: re.Pattern[str]) -> bool:
    return any(pairs.fullmatch("/".join(pair)) for pair in pairwise(path.split("/")))
