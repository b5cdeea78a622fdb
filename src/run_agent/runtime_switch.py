"""The model an agent uses, and how it is swapped: another provider for one turn, the first choice back for the next."""

import logging
import time
from collections.abc import Callable, Mapping
from dataclasses import fields, replace
from functools import partial
from types import MappingProxyType
from typing import Any

from agent import auxiliary_client
from agent.http import clients
from agent.providers.failures import is_transport_error
from agent.providers.health import Name, Permit, health, names_of
from agent.providers.runtime import Runtime, runtime_of_entry
from agent.providers.table import ANTHROPIC_MESSAGES, CHAT_COMPLETIONS, provider_or_custom
from hermes_base.cancel import CancelToken
from hermes_base.errors import Concern, HermesError
from run_agent.engines import tell_model
from run_agent.failover import describe, snapshot

log = logging.getLogger(__name__)

RECOVERY_PAUSE, LONGEST_RECOVERY_PAUSE = 3, 8


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
    key_env: str = ""
    cache_ttl: str = "5m"
    context_compressor: Any = None
    _client: Any = None
    _client_released: bool = False
    _fallback_chain: tuple[Mapping[str, Any], ...] = ()
    _fallback_index: int = 0
    _fallback_activated: bool = False
    _use_prompt_caching: bool = False
    _primary_runtime: Mapping[str, Any] = MappingProxyType({})
    _cancel: CancelToken | None = None
    _permit: Permit = health.insist(Runtime("", "", "", "", "", 0))  # of the model that the turn is on
    _tried: frozenset[Name] = frozenset()  # models that this turn was on since the last answer

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
            self.key_env,
        )

    def _adopt(self, runtime: Runtime) -> None:
        """Take the fields of a runtime; the engine learns of the new window."""
        self.provider, self.model, self.base_url = runtime.provider, runtime.model, runtime.base_url
        self.api_key, self.api_mode = runtime.api_key, runtime.api_mode
        self.context_length, self.max_tokens = runtime.context_length, runtime.max_tokens
        self.runtime_source, self.key_env = runtime.source, runtime.key_env
        # Requests carry cache marks where a Claude model is spoken to in a format that has them.
        routed_claude = runtime.provider == "openrouter" and "claude" in runtime.model.lower()
        self._use_prompt_caching = runtime.api_mode == ANTHROPIC_MESSAGES or routed_claude
        if self.context_compressor is not None:
            tell_model(self.context_compressor, runtime)

    def _snapshot_primary(self) -> None:
        self._primary_runtime = snapshot(self.runtime, self.context_compressor, caching=self._use_prompt_caching)

    # --- who starts a turn

    def _begin_on_the_best(self) -> None:
        """The turn starts on the first choice if that is well, else on the first of the chain that is; when nobody is,
        on the first choice all the same. The chain is whole for every turn."""
        self._leave_model()
        self._fallback_index, self._tried = 0, frozenset()
        first = self._find_first_choice()
        permit = health.admit(first) if first is not None else None

        def take_first() -> bool:
            return not self._fallback_activated or self._restore_primary_runtime()

        if (permit is not None and self._move(permit, take_first)) or self._try_activate_fallback():
            return
        if self._fallback_activated:
            self._restore_primary_runtime()
        self._stay(health.insist(self.runtime))

    def _find_first_choice(self) -> Runtime | None:
        """The first choice as it is today; None when it cannot be had at all."""
        if not self._fallback_activated:
            return self.runtime
        try:
            return self._find_today(self._first_as_it_was())
        except HermesError as problem:
            log.warning("the first choice %s cannot be had: %s", self._primary_runtime["provider"], problem)
            return None

    def _first_as_it_was(self) -> Runtime:
        """Without its key, which is looked up anew."""
        return Runtime(**{each.name: self._primary_runtime[each.name] for each in fields(Runtime)} | {"api_key": ""})

    def _stay(self, permit: Permit) -> None:
        """Calls go by this permit from now on; what the one before probed is free."""
        self._permit.release()
        self._permit = permit
        self._tried |= {permit.names[Concern.MODEL]}

    def _move(self, permit: Permit, take: Callable[[], bool]) -> bool:
        """Stay with a model that could be taken; if it could not, a stop included, what the permit probes is free."""
        taken = False
        try:
            taken = take()
        finally:
            if taken:
                self._stay(permit)
            else:
                permit.release()
        return taken

    def _note_answer(self) -> None:
        """The chain is whole for the next step of the turn: whoever failed before this answer may be well by then."""
        self._permit.succeeded()
        self._fallback_index, self._tried = 0, frozenset({self._permit.names[Concern.MODEL]})

    def _leave_model(self) -> None:
        """The turn is over, however it ended: nothing is being probed any more."""
        self._permit.release()

    # --- another provider for this turn

    def _could_switch(self) -> bool:
        """Whether somebody further down the chain is well."""
        left = map(_complete, self._fallback_chain[self._fallback_index :])
        return any(health.is_well(wanted) for wanted in left if wanted is not None and not self._was_tried(wanted))

    def _was_tried(self, runtime: Runtime) -> bool:
        return names_of(runtime)[Concern.MODEL] in self._tried

    def _try_activate_fallback(self) -> bool:
        """The next entry of the chain that is well and can be had takes over for this turn."""
        while self._fallback_index < len(self._fallback_chain):
            entry = self._fallback_chain[self._fallback_index]
            self._fallback_index += 1
            wanted = _complete(entry)
            if wanted is None or self._was_tried(wanted):
                continue
            permit = health.admit(wanted)
            if permit is None:
                log.info("fallback %s is passed over: it failed a moment ago", describe(wanted))
            elif self._move(permit, partial(self._connect_fallback, entry, wanted)):
                return True
        return False

    def _connect_fallback(self, entry: Mapping[str, Any], wanted: Runtime) -> bool:
        try:
            client, resolved = auxiliary_client.resolve_provider_client(
                wanted.provider,
                entry.get("model"),
                base_url=entry.get("base_url"),
                api_key=entry.get("api_key"),
                key_env=entry.get("key_env"),
                api_mode=entry.get("api_mode"),
                cancel=self._cancel,
            )
        except HermesError as problem:
            log.warning("fallback %s cannot be used: %s", describe(wanted), problem)
            return False
        self._use_client(client, "fallback")
        key = str(client.api_key or getattr(client, "auth_token", "") or "")
        model = wanted.model or str(resolved or "")
        self._adopt(replace(wanted, model=model, base_url=str(client.base_url), api_key=key))
        self._fallback_activated = True
        return True

    def _return_to_first_choice(self) -> bool:
        """The last way out: the chain is at its end, and the first choice was not asked for this answer."""
        first = self._find_first_choice()
        if first is None or self._was_tried(first) or not self._restore_primary_runtime():
            return False
        self._fallback_index = len(self._fallback_chain)
        self._stay(health.insist(first))
        return True

    def _use_client(self, client: Any, reason: str) -> None:
        old, self._client, self._client_released = self._client, client, False
        if old is not None:
            self._close_openai_client(old, reason=reason, shared=True)

    # --- the first choice again

    def _restore_primary_runtime(self) -> bool:
        """Back to the first choice with today's key; False (and still on the fallback) when that cannot be built."""
        if not self._fallback_activated:
            return False
        taken, runtime = self._primary_runtime, self._find_first_choice()
        if runtime is None:
            return False
        try:
            client = self._build_client(runtime)
        except Exception:
            log.exception("the first choice %s cannot be restored; the fallback goes on", taken["provider"])
            return False
        self._use_client(client, "restore")
        self._adopt(runtime)
        self._use_prompt_caching = taken["use_prompt_caching"]
        self.context_compressor.context_length = taken["compressor_context_length"]
        self.context_compressor.threshold_tokens = taken["compressor_threshold_tokens"]
        self._fallback_activated, self._fallback_index = False, 0
        return True

    def _find_today(self, runtime: Runtime) -> Runtime:
        """The first choice with the key that is set now, and at the address where the built-in model is served now."""
        raise NotImplementedError

    def _try_recover_primary_transport(self, error: BaseException, *, retry_count: int, max_retries: int) -> bool:
        """What the turn does by itself, for callers from outside: they have no token to wait on."""
        del max_retries  # the caller has decided already that retrying is over
        return self._recover_transport(error, retry_count, time.sleep)

    def _recover_transport(self, error: BaseException, retry_count: int, pause: Callable[[float], None]) -> bool:
        """One new connection to the first choice after its old one broke, after a short pause. Behind an aggregator
        there is a failover already: a new connection to it would change nothing."""
        is_aggregator = provider_or_custom(self.provider).aggregator
        if self._fallback_activated or not is_transport_error(error) or is_aggregator:
            return False
        pause(min(RECOVERY_PAUSE + retry_count, LONGEST_RECOVERY_PAUSE))  # a stop ends it, and the old client stays
        try:
            today = self._find_today(self.runtime)
            client = self._build_client(today)
        except Exception:
            log.exception("the connection to %s cannot be built anew", self.provider)
            return False
        self._use_client(client, "primary_recovery")
        self._adopt_today(today)
        return True

    def _adopt_today(self, today: Runtime) -> None:
        """The first choice is had another way from now on."""
        self._adopt(today)
        self._snapshot_primary()


def _complete(entry: Mapping[str, Any]) -> Runtime | None:
    """An entry of the chain as a model with today's key; None (logged) when it names nobody."""
    try:
        return runtime_of_entry(entry, auxiliary_client.environment())
    except HermesError as problem:
        log.warning("a fallback cannot be used: %s", problem)
        return None
