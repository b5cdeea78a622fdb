"""The model an agent uses, and how it is swapped: another provider for one turn, the first choice back for the next."""

import logging
import time
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from agent import auxiliary_client, clients
from agent.compaction import guarded
from agent.failures import is_transport_error
from agent.health import health, health_name
from agent.model_metadata import get_model_context_length
from agent.providers import CHAT_COMPLETIONS, provider_or_custom
from agent.runtime import Runtime
from hermes_base.errors import HermesError
from run_agent.engines import model_facts
from run_agent.failover import may_recover_transport, runtime_of_snapshot, snapshot, uses_prompt_caching

log = logging.getLogger(__name__)

LONGEST_RECOVERY_PAUSE = 8


class SwitchableRuntime:
    """Runtime fields and the client built from them. An instance made without `__init__` is whole."""

    model: str = ""
    provider: str = ""
    base_url: str = ""
    api_key: str = ""
    api_mode: str = CHAT_COMPLETIONS
    context_length: int = 0
    max_tokens: int | None = None
    runtime_source: str = ""
    cache_ttl: str = "5m"
    context_compressor: Any = None
    _client: Any = None
    _client_released: bool = False
    _fallback_chain: tuple[Mapping[str, Any], ...] = ()
    _fallback_index: int = 0
    _fallback_activated: bool = False
    _use_prompt_caching: bool = False
    _primary_runtime: Mapping[str, Any] = MappingProxyType({})

    # --- the client

    @property
    def client(self) -> Any:
        """The SDK's client, built when it is first asked for; None after a release, until the next turn."""
        if self._client is None and not self._client_released:
            self._client = self._build_client(self.runtime)
        return self._client

    @client.setter
    def client(self, client: Any) -> None:
        self._client, self._client_released = client, client is None

    def ensure_client(self) -> Any:
        """A client for the call that comes now, also after a release."""
        self._client_released = False
        return self.client

    def release_clients(self) -> None:
        """Soft: let go of the model client only. Shells, browsers and processes belong to the task and live on."""
        client, self._client = self._client, None
        self._client_released = True
        if client is not None:
            self._close_openai_client(client, reason="release", shared=True)

    def _build_client(self, runtime: Runtime) -> Any:
        raise NotImplementedError

    def _close_openai_client(self, client: Any, *, reason: str, shared: bool) -> None:
        """Give the client's share of its pool back; only a pool of its own is closed outright."""
        log.debug("client of %s let go: %s", self.provider, reason)
        if not shared and hasattr(client, "close"):
            client.close()
            return
        clients.release_client(client)

    # --- the runtime

    @property
    def runtime(self) -> Runtime:
        return Runtime(
            self.provider,
            self.model,
            self.base_url,
            self.api_key,
            self.api_mode,
            self.context_length,
            self.max_tokens,
            self.runtime_source,
        )

    def _adopt(self, runtime: Runtime) -> None:
        """Take the fields of a runtime; the engine learns of the new window."""
        self.provider, self.model, self.base_url = runtime.provider, runtime.model, runtime.base_url
        self.api_key, self.api_mode = runtime.api_key, runtime.api_mode
        self.context_length, self.max_tokens = runtime.context_length, runtime.max_tokens
        self.runtime_source = runtime.source
        self._use_prompt_caching = uses_prompt_caching(runtime)
        if self.context_compressor is not None:
            guarded(self.context_compressor.update_model, **model_facts(runtime))

    def _snapshot_primary(self) -> None:
        self._primary_runtime = snapshot(self.runtime, self.context_compressor, caching=self._use_prompt_caching)

    # --- another provider for this turn

    def _try_activate_fallback(self) -> bool:
        """The next entry of the chain that can be had takes over for this turn."""
        while self._fallback_index < len(self._fallback_chain):
            entry = self._fallback_chain[self._fallback_index]
            self._fallback_index += 1
            if self._activate(entry):
                return True
        return False

    def _activate(self, entry: Mapping[str, Any]) -> bool:
        name = str(entry.get("provider") or "custom")
        facts = provider_or_custom(name)
        address = str(entry.get("base_url") or facts.base_url)
        if not health.allows(health_name(name, address)):
            log.info("fallback %s is passed over: it failed a moment ago", name)
            return False
        try:
            client, resolved = auxiliary_client.resolve_provider_client(
                name,
                entry.get("model"),
                base_url=entry.get("base_url"),
                api_key=entry.get("api_key"),
                key_env=entry.get("key_env"),
                api_mode=entry.get("api_mode"),
            )
        except HermesError as problem:
            log.warning("fallback %s cannot be used: %s", name, problem)
            return False
        model = str(entry.get("model") or resolved or facts.default_model)
        old, self._client, self._client_released = self._client, client, False
        if old is not None:
            self._close_openai_client(old, reason="fallback", shared=True)
        window = get_model_context_length(model, config_context_length=entry.get("context_length"))
        self._adopt(
            Runtime(
                name,
                model,
                str(client.base_url),
                str(client.api_key or getattr(client, "auth_token", "") or ""),
                str(entry.get("api_mode") or facts.api_mode),
                window,
                entry.get("max_tokens"),
                "fallback",
            )
        )
        self._fallback_activated = True
        return True

    # --- the first choice again

    def _restore_primary_runtime(self) -> bool:
        """Back to the first choice with today's key; False (and still on the fallback) when that cannot be built."""
        if not self._fallback_activated:
            return False
        taken = self._primary_runtime
        runtime = runtime_of_snapshot(taken, self._todays_key(taken["provider"]))
        try:
            client = self._build_client(runtime)
        except Exception:
            log.exception("the first choice %s cannot be restored; the fallback goes on", taken["provider"])
            return False
        old, self._client, self._client_released = self._client, client, False
        if old is not None:
            self._close_openai_client(old, reason="restore", shared=True)
        self._adopt(runtime)
        self._use_prompt_caching = taken["use_prompt_caching"]
        self.context_compressor.context_length = taken["compressor_context_length"]
        self.context_compressor.threshold_tokens = taken["compressor_threshold_tokens"]
        self._fallback_activated, self._fallback_index = False, 0
        return True

    def _todays_key(self, provider: str) -> str:
        """The key that is set now for a provider, by whatever the caller said about it."""
        raise NotImplementedError

    def _try_recover_primary_transport(self, error: BaseException, *, retry_count: int, max_retries: int) -> bool:
        """One new connection to the first choice after its old one broke, after a short pause."""
        del max_retries  # the caller has decided already that retrying is over
        if self._fallback_activated or not is_transport_error(error) or not may_recover_transport(self.provider):
            return False
        self._close_openai_client(self._client, reason="primary_recovery", shared=True)
        time.sleep(min(3 + retry_count, LONGEST_RECOVERY_PAUSE))
        try:
            self._client = self._build_client(self.runtime)
        except Exception:
            log.exception("the connection to %s cannot be built anew", self.provider)
            return False
        self._client_released = False
        return True
