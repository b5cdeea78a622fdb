"""Chat platforms of plugins, seen from the host: hands in the settings that their modules (`gateway.config`) read, and
makes what a plugin registers a platform like any other. Whom it lets in is the owner's word, not the plugin's (G1)."""

import logging
import re
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gateway.config import HouseFacts, hand_in, load_platform, name_platform
from gateway.platform_registry import PlatformEntry, platform_registry
from gateway.platforms import platform_list
from gateway.platforms.plugin_bridge.bridge_adapter import BridgeAdapter
from gateway.platforms.plugin_bridge.bridge_spec import make_spec
from gateway.platforms.plugin_bridge.runner_face import find_runner
from hermes_base.errors import ConfigProblem
from hermes_cli import config as cli_config
from hermes_cli.profiles import get_active_profile_name

log = logging.getLogger("hermes_cli.plugins")

OWN_ACCESS = "allow_own_access"  # in `plugins.entries.<plugin>`: the plugin may decide who may write
ALLOW_ALL, ALLOWED = "GATEWAY_ALLOW_ALL_USERS", "GATEWAY_ALLOWED_USERS"
_TRUE_WORDS = frozenset({"1", "true", "yes", "on"})
_NAME = re.compile(r"[a-z0-9][a-z0-9_-]{0,63}")
_SWITCH_SECONDS = 2.0  # so long it counts what a plugin said of whether its platform is on


# --- the settings


def read_yaml() -> Mapping[str, Any]:
    """The settings; none while they cannot be used, so that a broken file switches nothing on. What `.env` says stands
    in the environment from then on."""
    cli_config.lend_env()
    try:
        return cli_config.load_config_readonly()  # noqa: TID251 - what plugins own has no attribute
    except ConfigProblem as problem:
        log.warning("platforms of plugins go without settings: %s", problem)
        return {}


hand_in(HouseFacts(read_yaml, get_active_profile_name))


# --- registering


def add_platform(plugin: str, entry: PlatformEntry) -> bool:
    """Make it a platform of this house; False: its name will not do, or is one of ours."""
    if not _NAME.fullmatch(entry.name):
        log.warning("plugin %s: %r is no name for a platform", plugin, entry.name)
        return False
    if platform_list.is_own(entry.name):
        log.warning("plugin %s wants the platform %s, which is built in; it is refused", plugin, entry.name)
        return False
    platform_registry.register(entry)
    name_platform(entry.name)
    facts = PlatformFacts(plugin, entry)
    spec = make_spec(
        entry,
        variables=tuple(entry.required_env),
        switched_on=facts.is_on,
        lets_in=facts.lets_in,
        set_up=entry.setup_fn,
        home_chat=facts.find_home,
    )

    def make(account: str, settings: Mapping[str, Any], home: Path) -> BridgeAdapter:
        return BridgeAdapter(spec, entry, account, settings, home)

    platform_list.register(spec, make)
    return True


def drop_platform(name: str) -> None:
    platform_registry.unregister(name)
    platform_list.unregister(name)


@dataclass(slots=True)
class PlatformFacts:
    """What the owner's settings and variables say of a plugin's platform; asked for each message."""

    plugin: str
    entry: PlatformEntry
    _known: tuple[float, list[str], bool] = (-_SWITCH_SECONDS, [], False)

    def is_on(self) -> bool:
        at, values, known = self._known
        now = list(map(cli_config.env_value, self.entry.required_env))
        if time.monotonic() - at >= _SWITCH_SECONDS or now != values:
            known = load_platform(self.entry).enabled
            self._known = time.monotonic(), now, known
        return known

    def find_home(self) -> str:
        home = load_platform(self.entry).home_channel
        return home.chat_id if home is not None else ""

    def lets_in(self, sender: str) -> bool:
        """Whether the owner's variables let somebody in. A list of this platform's ids is a word on these people; all
        that lets in whoever comes, or whoever has an id on any platform (G2), needs the owner's consent."""
        own = set(_read_list(self.entry.allowed_users_env))
        if sender in own - {"*"}:
            return True
        if not has_own_access(self.plugin):
            return False
        everywhere = set(_read_list(ALLOWED))
        if "*" in own | everywhere or sender in everywhere:
            return True
        if _is_true(self.entry.allow_all_env) or _is_true(ALLOW_ALL):
            return True
        return not own | everywhere and self._has_own_policy()

    def _has_own_policy(self) -> bool:
        """The adapter that runs lets nobody through whom its own list does not name."""
        runner = find_runner()
        theirs = runner.adapters.get(name_platform(self.entry.name)) if runner is not None else None
        if theirs is None or not theirs.enforces_own_access_policy:
            return False
        return "allowlist" in (theirs.config.extra.get("dm_policy"), theirs.config.extra.get("group_policy"))


def has_own_access(plugin: str) -> bool:
    """Whether the owner lets this plugin decide who may write."""
    entry = cli_config.load_last_good().plugins.entries.get(plugin)
    return isinstance(entry, Mapping) and entry.get(OWN_ACCESS) is True


def _is_true(variable: str) -> bool:
    return bool(variable) and cli_config.env_value(variable).strip().lower() in _TRUE_WORDS


def _read_list(variable: str) -> Iterator[str]:
    given = cli_config.env_value(variable).split(",") if variable else ()
    return (name.strip() for name in given if name.strip())
