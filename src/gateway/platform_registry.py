"""The chat platforms that plugins registered, as they describe them; `gateway.platforms.plugin_bridge` runs them."""

import logging
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from hermes_base.errors import STOPS

log = logging.getLogger(__name__)


@dataclass
class PlatformEntry:
    """One platform of a plugin. Everything that is called is the plugin's own code."""

    name: str
    label: str
    adapter_factory: Callable[[Any], Any]  # given its PlatformConfig
    check_fn: Callable[[], Any]  # whether what it needs is installed
    validate_config: Callable[[Any], Any] | None = None
    is_connected: Callable[[Any], Any] | None = None  # whether the config is complete
    required_env: list[str] = field(default_factory=list)
    install_hint: str = ""
    setup_fn: Callable[[], Any] | None = None
    source: str = "plugin"
    plugin_name: str = ""
    allowed_users_env: str = ""
    allow_all_env: str = ""
    max_message_length: int = 0
    pii_safe: bool = False
    emoji: str = "🔌"
    allow_update_command: bool = True
    platform_hint: str = ""
    env_enablement_fn: Callable[[], Any] | None = None
    apply_yaml_config_fn: Callable[..., Any] | None = None
    cron_deliver_env_var: str = ""
    standalone_sender_fn: Callable[..., Any] | None = None


class PlatformRegistry:
    def __init__(self) -> None:
        self._entries: dict[str, PlatformEntry] = {}

    def register(self, entry: PlatformEntry) -> None:
        """A later one of the same name takes its place."""
        self._entries[entry.name] = entry

    def unregister(self, name: str) -> bool:
        return self._entries.pop(name, None) is not None

    def get(self, name: str) -> PlatformEntry | None:
        return self._entries.get(name)

    def all_entries(self) -> list[PlatformEntry]:
        return list(self._entries.values())

    def plugin_entries(self) -> list[PlatformEntry]:
        return [entry for entry in self._entries.values() if entry.source == "plugin"]

    def is_registered(self, name: str) -> bool:
        return name in self._entries

    def create_adapter(self, name: str, config: Any) -> Any:
        """None when it is unknown, when something it needs is not there, or when its code fails."""
        entry = self._entries.get(name)
        if entry is None:
            return None
        try:
            if not entry.check_fn():
                log.warning("The platform %s lacks something: %s", name, entry.install_hint or "its plugin says what")
                return None
            if entry.validate_config is not None and not entry.validate_config(config):
                log.warning("The platform %s does not take its settings.", name)
                return None
            return entry.adapter_factory(config)
        except STOPS:
            raise
        except BaseException:  # the boundary to a plugin
            log.exception("The adapter of the platform %s could not be made.", name)
            return None


platform_registry = PlatformRegistry()
