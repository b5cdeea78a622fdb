"""Keeps the settings that concern all gateways alike in the store and in each gateway's own file (I4).

The file stays what is read: here, at the next start, and when the store is away. What somebody changes in it, by
command, on the page or by hand, goes into the store, and what others have put there goes into the file. What both said
when they were last alike stands in a file beside it.
"""

import json
import logging
import socket
import threading
import time
from collections.abc import Mapping
from copy import deepcopy
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gateway.core.shared.setting_merge import SettingMerge, merge_settings
from gateway.turns.threads import start_thread
from hermes_base import setting_table as table
from hermes_base.errors import ConfigProblem
from hermes_base.setting_leaves import Names, list_for_all, read_names, write_names, write_value
from hermes_base.store_place import describe_place
from hermes_cli import config as cli_config
from hermes_cli.config.many_changes import change_settings, with_changes
from hermes_cli.config.own_files import hold_folder, replace_file
from hermes_state.sql.shared.settings_sql import StoredSetting
from hermes_state.sql.store_sql import Store

log = logging.getLogger(__name__)

ALIKE_FILE = "settings-for-all.json"
ASIDE = "config.yaml.before-sharing"
SETTLED = 1_500_000_000  # nanoseconds
KEPT_BACK = "{key} holds a secret, or what cannot be kept as text: it stays on this machine, and is no setting for all."
NOT_WRITTEN = "What other gateways have set cannot be written into this one's file: {problem}"
NOT_UNDERSTOOD = "This gateway does not take what others have set, since it is not right here: {keys}."


Stamp = tuple[int, int, int]


@dataclass(frozen=True, slots=True)
class _FileState:
    """What a file of settings says, and when it was written."""

    raw: Mapping[Any, Any]
    values: Mapping[str, str]
    kept_back: frozenset[str]  # what holds a secret and stays here
    written: float


class SharedSettings:
    """One of a process. `sync` is called on a thread that may wait."""

    def __init__(self, home: Path, store: Store) -> None:
        self._home = home
        self._store = store
        self._place = describe_place(store.place)
        self._lock = threading.Lock()
        self._told: set[str] = set()
        self._stamp: Stamp | None = None  # of the file when it was compared last
        self.problem = ""  # why this gateway has other settings than the others

    async def look(self) -> None:
        """On the event loop, again and again: an edit of the file is put into the store."""
        if self._stamp is None or self._stamp != stamp_of(cli_config.get_config_path()):
            await start_thread(self.sync, "settings")

    def sync(self) -> None:
        """Make file and store alike."""
        with self._lock:
            stamp = stamp_of(cli_config.get_config_path())
            try:
                while not self._try_sync():
                    log.debug("others have changed settings at the same moment")
            except (ConfigProblem, OSError) as problem:
                self._tell(NOT_WRITTEN.format(problem=getattr(problem, "what", problem)))
            # A file that was written just now is looked at once more: the next edit may leave its time as it is.
            self._stamp = stamp if stamp is None or time.time_ns() - stamp[0] > SETTLED else None

    def _try_sync(self) -> bool:
        """False: somebody else was faster."""
        file = _read_file()
        if file is None:  # it is broken: told by whoever watches it; nothing of it is anybody's word
            return True
        for key in file.kept_back:
            self._tell(KEPT_BACK.format(key=_list_names({key})), is_problem=False)
        stored, alike = self._store.settings.read(), self._read_alike()
        said = {key: one.value for key, one in stored.settings.items() if key not in file.kept_back}
        newer = {key for key in said if key in file.values and file.written > stored.settings[key].changed}
        merged = merge_settings(file.values, alike, said if stored.number else None, newer)
        if merged.gives or not stored.number:
            number = self._store.settings.write(stored.number, merged.put, merged.drop, _name_machine(self._home))
            if number is None:
                return False
            if merged.gives:
                log.info("said for all gateways: %s", _list_names({*merged.put, *merged.drop}))
        refused = _find_refused(file.raw, merged)
        self._take(merged, refused, stored.settings, is_first=alike is None)
        unlike = {key: alike[key] for key in refused if alike is not None and key in alike}
        now = {**said, **merged.put}
        left_out = {*merged.drop, *refused}
        self._write_alike({**{key: value for key, value in now.items() if key not in left_out}, **unlike})
        self.problem = ""
        if refused:
            self._tell(NOT_UNDERSTOOD.format(keys=_list_names(refused)))
        return True

    def _take(
        self, merged: SettingMerge, refused: set[str], stored: Mapping[str, StoredSetting], *, is_first: bool
    ) -> None:
        take = {read_names(key): json.loads(value) for key, value in merged.take.items() if key not in refused}
        leave = [read_names(key) for key in merged.leave if key not in refused]
        if not take and not leave:
            return
        lost = merged.lost - refused
        if lost and is_first:
            kept = self._home / ASIDE
            with hold_folder(self._home):
                replace_file(kept, cli_config.get_config_path().read_text("utf-8"))
            log.warning("this gateway takes over what the others have set; as it was, its file is kept as %s", kept)
        change_settings(take, leave)
        where = sorted({stored[key].changed_by for key in merged.take if key in stored})
        log.info("taken from other gateways (%s): %s", ", ".join(where), _list_names({*merged.take, *merged.leave}))
        if lost:
            log.warning("here they said something else, which does not hold any more: %s", _list_names(lost))

    def _tell(self, text: str, *, is_problem: bool = True) -> None:
        """Once."""
        if is_problem:
            self.problem = text
        if text not in self._told:
            self._told.add(text)
            log.log(logging.WARNING if is_problem else logging.INFO, "%s", text)

    # --- what both said when they were last alike

    def _read_alike(self) -> Mapping[str, str] | None:
        try:
            kept = json.loads((self._home / ALIKE_FILE).read_text("utf-8"))
            return dict(kept["settings"]) if kept["store"] == self._place else None
        except (OSError, ValueError, KeyError, TypeError):  # without it, what the others have holds
            return None

    def _write_alike(self, values: Mapping[str, str]) -> None:
        text = json.dumps({"store": self._place, "settings": values}, ensure_ascii=False, indent=1, sort_keys=True)
        path = self._home / ALIKE_FILE
        if path.exists() and path.read_text("utf-8") == text:
            return
        with hold_folder(self._home):
            replace_file(path, text)


def stamp_of(path: Path) -> Stamp | None:
    try:
        facts = path.stat()
    except OSError:
        return None
    return facts.st_mtime_ns, facts.st_size, facts.st_ino


def _read_file() -> _FileState | None:
    """None: something in it is wrong."""
    path = cli_config.get_config_path()
    try:
        written = path.stat().st_mtime if path.exists() else 0.0
        if any(not problem.warning for problem in cli_config.find_problems()):
            return None
        raw = cli_config.read_raw_config()
    except ConfigProblem:
        return None
    redact = cli_config.redactor()
    values, kept_back = dict[str, str](), set[str]()
    for names, value in list_for_all(raw):
        text = write_value(value)
        if text is not None and redact(text) == text:
            values[write_names(names)] = text
        else:
            kept_back.add(write_names(names))
    return _FileState(raw, values, frozenset(kept_back), written)


def _find_refused(raw: Mapping[Any, Any], merged: SettingMerge) -> set[str]:
    """What would be wrong in the file, such as a choice that only a newer version knows."""
    if not merged.takes:
        return set()
    take = {read_names(key): json.loads(value) for key, value in merged.take.items()}
    wanted = with_changes(deepcopy(dict(raw)), take, [read_names(key) for key in merged.leave])
    wrong = [problem.key for problem in table.check(wanted) if not problem.warning]
    own = {key for key in merged.take if any(_is_below(one, read_names(key)) for one in wrong)}
    return own or ({*merged.take, *merged.leave} if wrong else set())


def _is_below(key: str, names: Names) -> bool:
    place = ".".join(names)
    return key == place or key.startswith((f"{place}.", f"{place}["))


def _list_names(keys: set[str]) -> str:
    return ", ".join(sorted(".".join(read_names(key)) for key in keys))


def _name_machine(home: Path) -> str:
    return f"{socket.gethostname()}:{home}"
