"""Which names hold secrets, and which files other programs obey: one map for file tools, judgement and sandbox."""

import re
from collections.abc import Iterable
from fnmatch import fnmatchcase, translate
from functools import lru_cache

from hermes_base.settings import SECRET_FILES
from hermes_base.tool_context import ToolContext

#: Files that a shell, a login or a program reads by itself and obeys: who writes them decides what runs later.
STARTUP_NAME = re.compile(
    r"\.(bash(rc|_profile|_login|_logout|_aliases)|profile|z(shrc|profile|shenv|login|logout)|inputrc|vimrc|exrc|gitconfig)"
    r"|\.(gitmodules|gitattributes|husky|git|config|local|pythonrc|xinitrc|xprofile|ssh|hermes|emacs|screenrc|tmux\.conf)"
    r"|\.(direnvrc|envrc|pam_environment|xsession(rc)?|vim|emacs\.d|nvim|gdbinit|lldbinit|pdbrc|irbrc|perldb|curlrc|wgetrc)"
    r"|sitecustomize\.py|usercustomize\.py|.*\.pth|crontab|autostart|authorized_keys2?|systemd|LaunchAgents",
    re.IGNORECASE,
)
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


def names_secret(text: str, patterns: Iterable[str] = SECRET_FILES) -> bool:
    """Whether a path, or a pattern for paths, leads to something that holds secrets."""
    patterns = tuple(patterns)
    return any(is_secret_name(part, patterns) or _may_find_secret(part) for part in re.split("[/:]", text))


def list_secret_patterns(context: ToolContext) -> tuple[str, ...]:
    """The names that hold secrets, as the owner has them in `files.secrets`."""
    listed = context.setting("files", "secrets", SECRET_FILES)
    return tuple(map(str, listed)) if isinstance(listed, list | tuple) else SECRET_FILES


def names_startup(path: str) -> bool:
    """Whether a part of the path is something that other programs obey."""
    return any(STARTUP_NAME.fullmatch(part) for part in path.split("/"))


def _may_find_secret(part: str) -> bool:
    """Whether a pattern is made to find a secret; `*` and `*.py` are too broad to be that."""
    if part.startswith("*") or not any(char in part for char in "*?["):
        return False
    return part.startswith(".") or any(fnmatchcase(name, part) for name in SAMPLES)
