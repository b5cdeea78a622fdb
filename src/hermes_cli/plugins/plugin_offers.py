"""What a plugin may register although this host does not use it yet: it is kept by kind, so that the plugin loads."""

import logging
from collections.abc import Callable
from typing import Any

from hermes_cli.plugins.plugin_records import PluginManifest, PluginRecords

log = logging.getLogger("hermes_cli.plugins")


class PluginOffers:
    """The part of `PluginContext` for things that are kept and not used."""

    manifest: PluginManifest
    _manager: PluginRecords

    def _keep(self, kind: str, offer: Any) -> None:
        self._manager._offers.setdefault(kind, []).append(offer)
        log.info("plugin %s offers a %s; it is kept, this host does not use it yet", self.manifest.id, kind)

    def register_platform(
        self,
        name: str,
        label: str,
        adapter_factory: Callable[..., Any],
        check_fn: Callable[[], Any],
        validate_config: Callable[..., Any] | None = None,
        required_env: list[str] | None = None,
        install_hint: str = "",
        **entry: Any,
    ) -> None:
        facts = {"name": name, "label": label, "adapter_factory": adapter_factory, "check_fn": check_fn}
        checks = {"validate_config": validate_config, "required_env": required_env, "install_hint": install_hint}
        self._keep("platform", {**entry, **facts, **checks})

    def register_memory_provider(self, provider: Any) -> None:
        self._keep("memory_provider", provider)

    def register_image_gen_provider(self, provider: Any) -> None:
        self._keep("image_gen_provider", provider)

    def register_video_gen_provider(self, provider: Any) -> None:
        self._keep("video_gen_provider", provider)

    def register_web_search_provider(self, provider: Any) -> None:
        self._keep("web_search_provider", provider)

    def register_browser_provider(self, provider: Any) -> None:
        self._keep("browser_provider", provider)

    def register_tts_provider(self, provider: Any) -> None:
        self._keep("tts_provider", provider)

    def register_transcription_provider(self, provider: Any) -> None:
        self._keep("transcription_provider", provider)

    def register_dashboard_auth_provider(self, provider: Any) -> None:
        self._keep("dashboard_auth_provider", provider)

    def register_secret_source(self, source: Any) -> None:
        self._keep("secret_source", source)

    def register_slack_action_handler(self, action_id: str, callback: Callable[..., Any]) -> None:
        if not action_id or not callable(callback):
            raise ValueError("A Slack action needs an id and a function.")
        self._keep("slack_action_handler", (action_id, callback))
