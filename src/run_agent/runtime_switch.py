"""The model that an agent uses, as its turn sees it, and how it is swapped: another provider for one turn, the first
choice back for the next."""

import logging
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, fields, replace
from functools import partial
from types import MappingProxyType
from typing import Any

from agent import auxiliary_client
from agent.formats.plugin_requests import RequestFacts, make_tail, prepare_body
from agent.formats.reply import Reply
from agent.formats.wire import AnswerReader, CallSettings, Dialect, dialect_of
from agent.http import clients
from agent.providers.failures import is_transport_error
from agent.providers.health import Name, Permit, health, names_of
from agent.providers.runtime import Runtime, find_key, needs_key, runtime_of_entry
from agent.providers.table import (
    ANTHROPIC_MESSAGES,
    CHAT_COMPLETIONS,
    PROVIDERS,
    Provider,
    advise_key,
    provider_or_custom,
)
from hermes_base.errors import Concern, ConfigProblem, FailureKind, HermesError, ModelFailure
from hermes_base.text.addresses import describe_address
from hermes_base.turn.cancel import CancelToken
from hermes_cli import config as cli_config
from run_agent.engines import tell_model
from run_agent.events import EventCallbacks
from run_agent.options import AgentOptions, with_options

log = logging.getLogger(__name__)

RECOVERY_PAUSE, LONGEST_RECOVERY_PAUSE = 3, 8
_KEY_REFUSED = 401


class SwitchableRuntime(EventCallbacks):
    """Runtime fields and the client built from them; implements `ModelPort`. An instance made without `__init__` is
    whole."""

    session_id: str = ""
    model: str = ""
    provider: str = ""
    base_url: str = ""
    api_key: str = ""
    api_mode: str = CHAT_COMPLETIONS
    context_length: int = 0
    max_tokens: int | None = None
    runtime_source: str = ""
    key_env: str = ""
    dialect: Dialect = dialect_of(CHAT_COMPLETIONS, PROVIDERS["custom"])
    reasoning_config: Mapping[str, Any] | None = None
    context_compressor: Any = None
    _facts: Provider = PROVIDERS["custom"]
    _who: str = ""  # the model and who serves it, for people
    _needs_key: bool = False
    _key_names: tuple[str, ...] = ()  # the variables that its key may stand in
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
    _options: AgentOptions = MappingProxyType({})  # type: ignore[assignment]
    _runtime_problem: ConfigProblem | None = None  # why no model could be found

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
        self._facts = provider_or_custom(runtime.provider)
        self._who, self._needs_key = describe(runtime), needs_key(self._facts, runtime.base_url)
        self._key_names = (*filter(None, [runtime.key_env]), *self._facts.key_env)
        self.dialect = dialect_of(runtime.api_mode, self._facts)
        # Requests carry cache marks where a Claude model is spoken to in a format that has them.
        routed_claude = runtime.provider == "openrouter" and "claude" in runtime.model.lower()
        self._use_prompt_caching = runtime.api_mode == ANTHROPIC_MESSAGES or routed_claude
        if self.context_compressor is not None and (problem := tell_model(self.context_compressor, runtime)):
            self.tell_once("engine model", problem)

    def _snapshot_primary(self) -> None:
        self._primary_runtime = snapshot(self.runtime, self.context_compressor, caching=self._use_prompt_caching)

    # --- one call

    def make_tail(self, *, with_tools: bool) -> dict[str, Any]:
        ttl = self._settings.model.cache_ttl if self._use_prompt_caching else ""
        settings = CallSettings(self.model, self.max_tokens, self.reasoning_config, with_tools, ttl)
        if self._facts.profile is None:
            return self.dialect.format.make_tail(self._facts, settings)
        return make_tail(self.dialect, self._facts, settings, RequestFacts(self.base_url, self.session_id))

    def send(
        self,
        body: bytes,
        answer: AnswerReader,
        cancel: CancelToken,
        on_chunk: Callable[[], None],
        patience: float | None = None,
    ) -> Reply:
        facts = self._facts
        # A missing model or key fails like a call would: the message is kept, and a fallback may answer.
        if self._runtime_problem is not None:
            raise ModelFailure(self._runtime_problem.what, kind=FailureKind.NEXT, fix=self._runtime_problem.fix)
        if not self.api_key and self._needs_key:
            raise ModelFailure(f"No key for {facts.label} is set.", kind=FailureKind.NEXT, fix=advise_key(facts))
        first_byte = facts.first_byte_seconds if patience is None else min(patience, facts.first_byte_seconds)
        if facts.profile is not None:
            body = prepare_body(self.dialect, facts, body)
        call = clients.StreamCall(self.dialect.format, body, self._who, first_byte, facts.between_chunks_seconds)
        try:
            return clients.stream(self.ensure_client(), call, answer, cancel, on_chunk)
        except ModelFailure as failure:
            if failure.status == _KEY_REFUSED:
                failure.fix = advise_key(facts) or failure.fix
            raise

    def note_success(self) -> None:
        """The chain is whole for the next step of the turn: whoever failed before this answer may be well by then."""
        if health.circuits:
            self._permit.succeeded()
        self._fallback_index, self._tried = 0, frozenset({self._permit.names[Concern.MODEL]})
        if not self._fallback_activated and (self._stand_in or self._told_of):
            self.tell_return(self._who)

    def note_failure(self, failure: ModelFailure) -> None:
        self._permit.failed(failure.concern, failure.retry_after)

    # --- who starts a turn

    def _find_runtime(self) -> None:
        """What the options left open is decided now; what cannot be decided is said when the model is called.

        A key that was put right since the last turn is used in this one, and a built-in model that was started anew.
        Those of a fallback are looked up when it takes over.
        """
        self._runtime_problem = None
        try:
            if self.base_url:
                key = self._options.get("api_key") or cli_config.find_env_value(self._key_names)
                is_current = key == self.api_key and self.provider != "embedded"
                if not (is_current or self._fallback_activated):
                    self._look_again()
                return
            found = auxiliary_client.find_runtime(self._settings, model=self.model, provider=self.provider)
            self._adopt(auxiliary_client.connect_runtime(with_options(found, self._options), self._cancel))
            self._client = None
            self._snapshot_primary()
        except ConfigProblem as problem:
            self._runtime_problem = problem

    def _look_again(self) -> None:
        today = self._find_today(self.runtime)
        if today != self.runtime:
            self.release_clients()
            self._adopt_today(today)

    def _begin_on_model(self) -> None:
        """The turn starts on the first choice if that is well, else on the first of the chain that is; when nobody is,
        on the first choice all the same. The chain is whole for every turn, and a stand-in is told of once."""
        self._find_runtime()
        is_first = not self._fallback_activated
        if is_first and not health.circuits and names_of(self.runtime) is self._permit.names:  # the turn before had it
            self._fallback_index, self._tried = 0, frozenset({self._permit.names[Concern.MODEL]})
            return
        self._permit.release()
        self._fallback_index, self._tried = 0, frozenset()
        first = self.runtime if is_first else self._find_first_choice()
        permit = health.admit(first) if first is not None else None
        if permit is not None and not self._fallback_activated:
            self._stay(permit)
            return
        before = describe(self._first_as_it_was() if self._fallback_activated else self.runtime)
        restored = permit is not None and self._move(permit, self._restore_primary_runtime)
        if not restored and not self._try_activate_fallback():
            self._restore_primary_runtime()
            self._stay(health.insist(self.runtime))
        answering = describe(self.runtime)
        if self._fallback_activated and answering != self._told_of:
            self.tell_switch(before, answering, "unwell", f"{before} failed a moment ago.")

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

    # --- another provider for this turn

    def switch(self, failure: ModelFailure) -> bool:
        """Hand the turn to the next provider of the chain that is well, and say so once."""
        before = describe(self.runtime)
        self.note_failure(failure)
        if not self._try_activate_fallback() and not self._return_to_first_choice():
            return False
        # One word for the log and the meters.
        reason = str(failure.status or ("connection" if failure.transport else failure.kind))
        after = describe(self.runtime)
        if self._fallback_activated:
            self.tell_switch(before, after, reason, failure.what)
        else:  # that the first choice is back is said when it has answered
            self.note_switch(before, after, reason)
        return True

    def could_switch(self) -> bool:
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
        if runtime.provider == "embedded":
            return auxiliary_client.connect_runtime(runtime, self._cancel)
        given = self._options.get("api_key")
        key = given or find_key(runtime.facts, auxiliary_client.environment(), runtime.key_env)
        return replace(runtime, api_key=key)

    def _try_recover_primary_transport(self, error: BaseException, *, retry_count: int, max_retries: int) -> bool:
        """What the turn does by itself, for callers from outside: they have no token to wait on."""
        del max_retries  # the caller has decided already that retrying is over
        return self.recover(error, time.sleep, retry_count)

    def recover(self, error: BaseException, pause: Callable[[float], None], retry_count: int = 1) -> bool:
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


# --- as values


def fallback_chain(option: Mapping[str, Any] | Sequence[Mapping[str, Any]] | None) -> tuple[Mapping[str, Any], ...]:
    """One entry or several, in their order; an entry without a provider and an address is none."""
    entries = [option] if isinstance(option, Mapping) else list(option or ())
    return tuple(entry for entry in entries if entry.get("provider") or entry.get("base_url"))


def describe(runtime: Runtime) -> str:
    """How people know it: the model and who serves it."""
    facts = provider_or_custom(runtime.provider)
    who = f"({facts.label})" if facts.name != "custom" else f"at {describe_address(runtime.base_url)}"
    return f"{runtime.model} {who}"


def snapshot(runtime: Runtime, engine: Any, *, caching: bool) -> dict[str, Any]:
    """The first choice as it was, so that the next turn can have it back."""
    taken = {
        **asdict(runtime),
        "client_kwargs": {"api_key": runtime.api_key, "base_url": runtime.base_url},
        "use_prompt_caching": caching,
        "compressor_model": getattr(engine, "model", runtime.model),
        "compressor_provider": getattr(engine, "provider", runtime.provider),
        "compressor_context_length": getattr(engine, "context_length", runtime.context_length),
        "compressor_threshold_tokens": getattr(engine, "threshold_tokens", 0),
    }
    if runtime.api_mode == ANTHROPIC_MESSAGES:
        taken["anthropic_api_key"] = runtime.api_key
        taken["anthropic_base_url"] = runtime.base_url
        taken["is_anthropic_oauth"] = clients.is_oauth_token(runtime.api_key)
    return taken
