"""What plugins read of the gateway's settings: platforms with their sections, in the form that they are written for.

The values themselves are the settings of this house. They are handed in (`hand_in`), since a platform reaches neither
the settings' files nor the command line.
"""

import logging
import os
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, fields, replace
from enum import Enum
from pathlib import Path
from typing import Any, Self

from gateway.platform_registry import PlatformEntry, platform_registry
from hermes_base.conversation_key import DEFAULT_PROFILE
from hermes_base.errors import STOPS
from hermes_base.house_opening import PLUGIN_HOST, open_house
from hermes_base.setting_values import read_bool
from hermes_constants import get_hermes_home

log = logging.getLogger(__name__)

PLATFORMS, GATEWAY = "platforms", "gateway"
_OWN_FOLDERS = Path(__file__).parent / PLATFORMS


# --- the house


@dataclass(frozen=True, slots=True)
class HouseFacts:
    """What is handed in: the settings as they are written, merged over the defaults, and whose they are."""

    read_yaml: Callable[[], Mapping[str, Any]] = dict
    find_profile: Callable[[], str] = lambda: DEFAULT_PROFILE


_house: HouseFacts | None = None


def hand_in(house: HouseFacts) -> None:
    """From now on the settings are read so."""
    global _house
    _house = house


def read_house() -> Mapping[str, Any]:
    """The whole settings."""
    return _find_house().read_yaml()


def find_profile() -> str:
    """The profile whose conversations this process has."""
    return _find_house().find_profile()


def _find_house() -> HouseFacts:
    if _house is None:
        open_house(PLUGIN_HOST)
    return _house or HouseFacts()


# --- names


class Platform(Enum):
    """The names of platforms. One that a plugin registered, or that has a folder here, is a member on demand."""

    LOCAL = "local"
    TELEGRAM = "telegram"
    DISCORD = "discord"
    WHATSAPP = "whatsapp"
    WHATSAPP_CLOUD = "whatsapp_cloud"
    SLACK = "slack"
    SIGNAL = "signal"
    MATTERMOST = "mattermost"
    MATRIX = "matrix"
    HOMEASSISTANT = "homeassistant"
    EMAIL = "email"
    SMS = "sms"
    DINGTALK = "dingtalk"
    API_SERVER = "api_server"
    WEBHOOK = "webhook"
    MSGRAPH_WEBHOOK = "msgraph_webhook"
    FEISHU = "feishu"
    WECOM = "wecom"
    WECOM_CALLBACK = "wecom_callback"
    WEIXIN = "weixin"
    BLUEBUBBLES = "bluebubbles"
    QQBOT = "qqbot"
    YUANBAO = "yuanbao"
    RELAY = "relay"

    @classmethod
    def _missing_(cls, value: object) -> "Platform | None":
        name = value.strip().lower() if isinstance(value, str) else ""
        known = cls._value2member_map_.get(name)
        if isinstance(known, cls):
            return known
        has_folder = name.isidentifier() and (_OWN_FOLDERS / name / "__init__.py").is_file()
        return name_platform(name) if name and (has_folder or platform_registry.is_registered(name)) else None


def name_platform(name: str) -> Platform:
    """The member of this name, made if there is none: the same object from then on. Iteration does not show it."""
    known = Platform._value2member_map_.get(name)
    if isinstance(known, Platform):
        return known
    member = object.__new__(Platform)
    member._name_ = name.upper().replace("-", "_").replace(" ", "_")
    member._value_ = name
    Platform._value2member_map_[name] = member
    Platform._member_map_[member._name_] = member
    return member


# --- sections


@dataclass
class HomeChannel:
    """Where what nobody asked for goes."""

    platform: Platform
    chat_id: str
    name: str = "Home"
    thread_id: str | None = None

    def to_dict(self) -> dict[str, Any]:
        own = {"platform": self.platform.value, "chat_id": self.chat_id, "name": self.name}
        return {**own, "thread_id": self.thread_id} if self.thread_id else own

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Self:
        thread = data.get("thread_id")
        return cls(
            Platform(data["platform"]),
            str(data["chat_id"]),
            str(data.get("name") or "Home"),
            str(thread) if thread else None,
        )


@dataclass
class PlatformConfig:
    """The section of one platform. What has no field of its own stands in `extra`."""

    enabled: bool = False
    token: str | None = None
    api_key: str | None = None
    home_channel: HomeChannel | None = None
    reply_to_mode: str = "first"
    gateway_restart_notification: bool = True
    typing_indicator: bool = True
    typing_status_text: str | None = None
    channel_overrides: dict[str, Any] = field(default_factory=dict)
    extra: dict[str, Any] = field(default_factory=dict)

    def to_dict(self) -> dict[str, Any]:
        own = {one.name: getattr(self, one.name) for one in fields(self)}
        own["home_channel"] = self.home_channel.to_dict() if self.home_channel else None
        own["extra"], own["channel_overrides"] = dict(self.extra), dict(self.channel_overrides)
        return {name: value for name, value in own.items() if value is not None}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Self:
        """Text for yes and no counts as such; settings without a field here are put into `extra`."""
        names = {one.name for one in fields(cls)}
        given = {name: value for name, value in data.items() if name in names and value is not None}
        for name in ("enabled", "gateway_restart_notification", "typing_indicator"):
            if name in given:
                given[name] = as_bool(given[name])
        home = given.pop("home_channel", None)
        if isinstance(home, Mapping) and home.get("chat_id"):
            given["home_channel"] = HomeChannel.from_dict(home) if home.get("platform") else None
        elif isinstance(home, HomeChannel):
            given["home_channel"] = home
        for name in ("extra", "channel_overrides"):
            given[name] = dict(given[name]) if isinstance(given.get(name), Mapping) else {}
        beside = {name: value for name, value in data.items() if name not in names}
        return cls(**{**given, "extra": {**beside, **given["extra"]}})


def as_bool(value: Any) -> bool:
    """What people write for yes and no."""
    read = read_bool(str(value)) if isinstance(value, str | int) else value
    return read is True


@dataclass
class GatewayConfig:
    """The gateway's settings as plugins know them. Groups are shared here: nobody has a conversation of their own in
    one, so both flags for that are false whatever a file says."""

    platforms: dict[Platform, PlatformConfig] = field(default_factory=dict)
    default_reset_policy: Any = None
    reset_by_type: dict[str, Any] = field(default_factory=dict)
    reset_by_platform: dict[Any, Any] = field(default_factory=dict)
    reset_triggers: list[str] = field(default_factory=lambda: ["/new", "/reset"])
    quick_commands: dict[str, Any] = field(default_factory=dict)
    sessions_dir: Path = field(default_factory=lambda: get_hermes_home() / "sessions")
    write_sessions_json: bool = True
    always_log_local: bool = True
    filter_silence_narration: bool = True
    stt_enabled: bool = True
    stt_echo_transcripts: bool = True
    group_sessions_per_user: bool = False
    thread_sessions_per_user: bool = False
    max_concurrent_sessions: int | None = None
    multiplex_profiles: bool = False
    systemd_watchdog_seconds: int = 0
    unauthorized_dm_behavior: str = "pair"
    streaming: Any = None
    session_store_max_age_days: int = 90
    profile_routes: list[Any] = field(default_factory=list)

    def get_connected_platforms(self) -> list[Platform]:
        """Those that are switched on and set up, by name."""
        return sorted((name for name, own in self.platforms.items() if own.enabled), key=lambda one: str(one.value))

    def get_home_channel(self, platform: Platform) -> HomeChannel | None:
        own = self.platforms.get(platform)
        return own.home_channel if own else None

    def get_unauthorized_dm_behavior(self, platform: Platform | None = None) -> str:
        """`pair`: a stranger gets a code; `ignore`: no word."""
        own = self.platforms.get(platform) if platform else None
        said = str((own.extra if own else {}).get("unauthorized_dm_behavior") or self.unauthorized_dm_behavior)
        return said if said in ("pair", "ignore") else "pair"

    def to_dict(self) -> dict[str, Any]:
        own = {one.name: getattr(self, one.name) for one in fields(self)}
        own["sessions_dir"] = str(self.sessions_dir)
        own[PLATFORMS] = {str(name.value): one.to_dict() for name, one in self.platforms.items()}
        return own

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Self:
        names = {one.name for one in fields(cls)} - {PLATFORMS}
        given = {name: value for name, value in data.items() if name in names and value is not None}
        if "sessions_dir" in given:
            given["sessions_dir"] = Path(given["sessions_dir"])
        given |= {"group_sessions_per_user": False, "thread_sessions_per_user": False}
        sections = data.get(PLATFORMS)
        read: dict[Platform, PlatformConfig] = {}
        for name, section in sections.items() if isinstance(sections, Mapping) else ():
            if isinstance(section, Mapping):
                read[_read_name(name)] = PlatformConfig.from_dict(section)
        return cls(platforms=read, **given)


def _read_name(name: Any) -> Platform:
    """What the settings call a platform is one, whether its plugin runs or not."""
    return name if isinstance(name, Platform) else name_platform(str(name).strip().lower())


# --- loading


def load_gateway_config() -> GatewayConfig:
    """The settings of the gateway as they are now: what the environment says of a plugin's platform over the file."""
    whole = read_house()
    gateway = whole.get(GATEWAY)
    gateway = gateway if isinstance(gateway, Mapping) else {}
    sections = whole.get(PLATFORMS)
    names = {str(name) for name in sections} if isinstance(sections, Mapping) else set()
    entries = {entry.name: entry for entry in platform_registry.all_entries()}
    made: dict[Platform, PlatformConfig] = {}
    for name in sorted(names | entries.keys()):
        if entry := entries.get(name):
            made[_read_name(name)] = load_platform(entry)
        elif block := merge_blocks(whole, name):
            made[_read_name(name)] = PlatformConfig.from_dict(block)
    return replace(GatewayConfig.from_dict({**gateway, PLATFORMS: {}}), platforms=made)


def merge_blocks(whole: Mapping[str, Any], name: str) -> dict[str, Any]:
    """What the settings say of a platform, wherever it may stand; `extra` of all of them together."""
    merged: dict[str, Any] = {}
    extra: dict[str, Any] = {}
    for block in _list_blocks(whole, name):
        inner = block.get("extra")
        extra.update(inner if isinstance(inner, Mapping) else {})
        merged.update({key: value for key, value in block.items() if key != "extra"})
    return {**merged, "extra": extra} if extra else merged


def _list_blocks(whole: Mapping[str, Any], name: str) -> Iterator[Mapping[str, Any]]:
    """The weakest first."""
    gateway, sections = whole.get(GATEWAY), whole.get(PLATFORMS)
    inner = gateway.get(PLATFORMS) if isinstance(gateway, Mapping) else None
    for place in (whole, inner, sections):
        block = place.get(name) if isinstance(place, Mapping) else None
        if isinstance(block, Mapping):
            yield block


def load_platform(entry: PlatformEntry, given: Mapping[str, Any] | None = None) -> PlatformConfig:
    """The section of a plugin's platform, with what its own functions add; `given`: the settings' part of it. A
    function that fails leaves it switched off."""
    whole = read_house()
    block = merge_blocks(whole, entry.name) if given is None else dict(given)
    said = block.get("enabled")
    config = PlatformConfig.from_dict(block)
    try:
        if entry.apply_yaml_config_fn is not None:
            added = entry.apply_yaml_config_fn(dict(whole), dict(block))
            config.extra.update(added if isinstance(added, Mapping) else {})
        _seed(entry, config, enabled=None if said is None else as_bool(said))
    except STOPS:
        raise
    except BaseException:  # the boundary to a plugin
        log.exception("The platform %s stays off: its plugin could not read its settings.", entry.name)
        config.enabled = False
    home = os.environ.get(entry.cron_deliver_env_var, "") if entry.cron_deliver_env_var else ""
    if home and config.home_channel is None:
        config.home_channel = HomeChannel(name_platform(entry.name), home)
    return config


def _seed(entry: PlatformEntry, config: PlatformConfig, enabled: bool | None) -> None:
    """Variables alone switch a platform on whose plugin runs, unless the settings say no."""
    config.enabled = False
    if enabled is False:
        return
    seed = entry.env_enablement_fn() if entry.env_enablement_fn is not None else None
    if isinstance(seed, Mapping):
        given = dict(seed)
        home = given.pop("home_channel", None)
        if isinstance(home, Mapping) and home.get("chat_id") and config.home_channel is None:
            config.home_channel = HomeChannel.from_dict({**home, "platform": name_platform(entry.name)})
        config.extra.update({key: value for key, value in given.items() if key not in config.extra})
    config.enabled = True
    if enabled is None:
        is_complete = entry.is_connected is None or bool(entry.is_connected(config))
        # Without anything that says so, a platform is not on because its plugin is.
        has_variables = bool(entry.required_env) and all(map(os.environ.get, entry.required_env))
        is_asked_for = entry.is_connected is not None or isinstance(seed, Mapping) or has_variables
        config.enabled = is_complete and is_asked_for
    config.enabled = config.enabled and bool(entry.check_fn())
