"""Notices edits of the settings while the gateway runs: what is good is applied and told with where it takes effect,
what is broken is refused, and the last good settings stay in force (H6). Turns under way are not touched."""

import logging
import os
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from operator import attrgetter
from pathlib import Path
from typing import Any

from agent.providers.key_names import find_key_names
from gateway.platforms.platform_list import all_specs
from gateway.run import GatewayRunner
from gateway.turns.threads import start_thread
from hermes_base import setting_table as table
from hermes_base.chat import Notice
from hermes_base.errors import ConfigProblem
from hermes_base.settings import AT_ONCE, NEXT_MESSAGE, NEXT_START, Settings
from hermes_cli import config as cli_config
from hermes_cli.config import logs
from hermes_cli.plugins import get_plugin_manager
from plugins import context_engine

log = logging.getLogger(__name__)

KEPT_CHANGES = 50
SETTLED = 1_500_000_000  # nanoseconds
#: What somebody in an open chat notices.
_FELT = ("model.", "agent.", "gateway.busy", "approvals.")

Stamp = tuple[tuple[int, int, int] | None, ...]


@dataclass(frozen=True, slots=True)
class SettingChange:
    """One setting that is another one now; its value is not told, since it may be a secret."""

    key: str
    takes_effect: str
    at: float = 0.0


@dataclass(frozen=True, slots=True)
class Known:
    """The settings in force, and the names in `.env` with their values."""

    settings: Settings
    env: Mapping[str, str]
    problem: str = ""


# --- what changed, pure


def find_changes(before: Known, after: Known) -> Iterator[SettingChange]:
    """What differs, in the order of the table; then what plugins and platforms own; then variables."""
    for row in table.SETTINGS:
        if attrgetter(row.key)(before.settings) != attrgetter(row.key)(after.settings):
            yield SettingChange(row.key, row.takes_effect)
    for key in _differ(before.settings.foreign, after.settings.foreign):
        yield SettingChange(key, table.when_owned(key))
    keys_of_models = find_key_names(after.settings)
    for name in _differ(before.env, after.env):
        is_platforms = any(spec.asks_for(name) for spec in all_specs())
        other = AT_ONCE if is_platforms else NEXT_START
        yield SettingChange(name, NEXT_MESSAGE if name in keys_of_models else other)


def _differ(before: Mapping[str, Any], after: Mapping[str, Any]) -> list[str]:
    return sorted(key for key in {*before, *after} if before.get(key) != after.get(key))


def describe_changes(changes: list[SettingChange]) -> str:
    """`gateway.busy (with the next message), log.level (at once)`."""
    return ", ".join(f"{change.key} ({change.takes_effect})" for change in changes)


# --- watching


class SettingsWatch:
    """Looks at two file stamps every two seconds; reads the files only when one has changed."""

    def __init__(
        self,
        runner: GatewayRunner,
        tell: Callable[[Notice], None],
        followers: Sequence[Callable[[Sequence[SettingChange]], None]],
    ) -> None:
        """`tell` is called with what somebody in an open chat notices, `followers` with everything that has changed."""
        self._runner = runner
        self._tell_all = tell
        self._followers = followers
        self._stamp: Stamp | None = None
        self._known: Known | None = None
        self._loaded_at = 0.0
        self._changes: deque[SettingChange] = deque(maxlen=KEPT_CHANGES)
        self._engine = ""
        self.engine_problem = ""  # why the context engine that the settings name is not used

    @property
    def problem(self) -> str:
        """Why the file as it stands is not used; empty: it is."""
        return self._known.problem if self._known else ""

    def describe(self) -> dict[str, Any]:
        """For the status."""
        changes = [asdict(change) for change in self._changes]
        return {"loaded_at": self._loaded_at, "problem": self.problem, "changes": changes}

    async def look(self) -> None:
        """On the event loop; parsing is done on a thread."""
        plugins = get_plugin_manager()
        if plugins.has_set_aside:
            await start_thread(plugins.take_back, "plugins")
        stamp = tuple(map(_stat, (cli_config.get_config_path(), cli_config.get_env_path())))
        if stamp == self._stamp:
            return
        before = self._known
        after, changes = await start_thread(lambda: read_changes(before), "settings")
        self._known = after
        if changes:
            await start_thread(plugins.follow_settings, "plugins")
        # A file that was written just now is looked at once more: the next edit may leave its time as it is.
        now = time.time_ns()
        self._stamp = stamp if all(file is None or abs(now - file[0]) > SETTLED for file in stamp) else None
        # A context engine is made ready when it is named: before the first agent, and when another one is.
        engine = after.settings.context.engine
        if engine != self._engine:
            self._engine = engine
            self.engine_problem = await start_thread(lambda: context_engine.prepare(engine), "engine")
        limits = after.settings.gateway
        self._runner.set_limits(
            agents=limits.agents,
            idle_seconds=60.0 * limits.agent_idle_minutes,
            size=limits.agent_megabytes * 1024 * 1024,
        )
        if before is None:
            self._loaded_at = time.time()
            return
        self._tell(before, after, changes)

    def _tell(self, before: Known, after: Known, found: Sequence[SettingChange]) -> None:
        now = time.time()
        changes = [SettingChange(change.key, change.takes_effect, now) for change in found]
        if before.problem and not after.problem:
            log.info("the settings are in order again")
        if changes:
            self._loaded_at = now
            self._changes.extend(changes)
            log.info("the settings have changed: %s", describe_changes(changes))
            logs.set_level(after.settings.log.level)
            for follow in self._followers:
                follow(changes)
        felt = [change for change in changes if change.key.startswith(_FELT)]
        if felt:
            self._tell_all(Notice(f"The settings have changed: {describe_changes(felt)}."))


def _stat(path: Path) -> tuple[int, int, int] | None:
    try:
        facts = os.stat(path)
    except OSError:
        return None
    return facts.st_mtime_ns, facts.st_size, facts.st_ino


def read_changes(before: Known | None) -> tuple[Known, list[SettingChange]]:
    """The settings as they are now, and what is another than before."""
    after = read_known(before)
    return after, [] if before is None else list(find_changes(before, after))


def read_known(before: Known | None) -> Known:
    """The settings as they are now; of a broken file the problem, and what was known before."""
    settings = cli_config.load_last_good()  # says in the log what is wrong, once
    env = before.env if before else {}
    try:
        cli_config.load_settings()
        env = cli_config.load_env()
    except ConfigProblem as problem:
        return Known(settings, env, cli_config.redactor()(str(problem)))
    return Known(settings, env)
