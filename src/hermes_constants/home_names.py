"""Which names in a home are Hermes's own, and which a plugin's: its data stands in the home, not beside its code."""

import re
from collections.abc import Collection
from pathlib import Path

from hermes_constants import SIGN_INS_FOLDER, STORE_FILE, WEB_TOKEN_FILE, get_hermes_home

#: What is the person's, and in every back-up.
KEPT = (
    *(STORE_FILE, "config.yaml", "SOUL.md", "prices.json", "chat_history"),
    *("memories", "skills", "people", "todos", "workspace", "plugins", "plugin-seals", "uploads", "shown"),
    "cron",
)
#: What Hermes has there besides: keys, locks, and what passes or can be made anew.
PASSING = frozenset(
    {
        *(".env", WEB_TOKEN_FILE, SIGN_INS_FOLDER, "web-setup-later", "mcp", "sessions", "api-repeats.jsonl"),
        *("logs", "cache", "outbox", "file-changes", "mail", "platforms", "backups", "profiles", "run"),
    }
)
#: What the names of others of ours begin with.
_OWN_WORDS = ("hermes.", "hermes-store", "gateway.", "before-restore-", "unfinished-")
_DATA_NAME = re.compile(r"[^\W_][\w .+-]{0,63}")
_AFFIX = re.compile(r"^hermes[-_]|[-_]hermes$")
#: A database, and what SQLite and others put beside it while they use it.
_DATABASE = re.compile(r"(.+\.(?:db3?|sqlite3?))(?:[-.](?:wal|shm|journal|lock))?")


def is_own(name: str) -> bool:
    """Whether a name at the top of a home is one of Hermes's."""
    return name in KEPT or name in PASSING or name.startswith(_OWN_WORDS)


def may_be_data(name: str) -> bool:
    """Whether a plugin's data may stand under this name at the top of a home."""
    return _DATA_NAME.fullmatch(name) is not None and not name.endswith((" ", ".")) and not is_own(name)


def belongs_to(name: str, plugins: Collection[str]) -> bool:
    """Whether a name at the top of a home is data of one of these plugins: its own name, with or without an ending or
    the word Hermes in it (`hermes-notes` keeps `notes.db`)."""
    if not may_be_data(name):
        return False
    words = {word for plugin in plugins for word in (name_data(plugin), plugin, _AFFIX.sub("", plugin))}
    stem = name.partition(".")[0]
    return bool({name, stem} & {form for word in words for form in (word, word.replace("-", "_"))} - {""})


def name_data(plugin: str) -> str:
    """What the folder of a plugin's data is called."""
    name = re.sub(r"[^\w.+-]", "_", plugin).strip("._ ")[:50] or "plugin"
    return name if may_be_data(name) else f"data-of-{name}"


def make_data_folder(plugin: str) -> Path:
    """The folder of a plugin's data in the home, made if it is not there: only the owner may read it."""
    folder = get_hermes_home() / name_data(plugin)
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    return folder


def find_database(name: str) -> str:
    """The database that a file is, or belongs to, as a path; empty: none. All of these files are one thing: a log
    (`-wal`) beside another database than its own makes nonsense of it."""
    found = _DATABASE.fullmatch(name)
    return found[1] if found else ""
