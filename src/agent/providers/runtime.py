"""Which model answers: decided from settings, keys and what runs on this machine. Pure but for the probe passed in."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from agent.model_metadata import get_model_context_length
from agent.providers.profile_calls import fetch_models
from agent.providers.table import PROVIDERS, Provider, find_provider, list_known, provider_or_custom
from hermes_base.errors import ConfigProblem
from hermes_base.settings import ModelSettings, Settings
from hermes_base.text.addresses import check_address, describe_address

#: Asks local servers which models they have: base address -> names, None when nobody answers there.
Probe = Callable[[Sequence[str]], Mapping[str, Sequence[str]]]
NOTHING_ELSE = "nothing else is set up"


@dataclass(frozen=True, slots=True)
class Runtime:
    """Everything a model call needs to know. Provider, address and key were resolved together, and stay together."""

    provider: str
    model: str
    base_url: str
    api_key: str
    api_mode: str
    context_length: int
    max_tokens: int | None = None
    source: str = ""  # why this one, for the banner and `/model`
    key_env: str = ""  # the variable that the key is looked up in before the provider's own

    @property
    def facts(self) -> Provider:
        return provider_or_custom(self.provider)

    @property
    def label(self) -> str:
        """Who answers, for people: with the address, where it is not the provider's own."""
        own = self.facts.base_url
        is_elsewhere = bool(own and self.base_url) and self.base_url.rstrip("/") != own.rstrip("/")
        return f"{self.facts.label} at {describe_address(self.base_url)}" if is_elsewhere else self.facts.label


def resolve_runtime(
    settings: Settings,
    env: Mapping[str, str],
    probe: Probe,
    *,
    model: str = "",
    provider: str = "",
    embedded_found: bool = True,
) -> Runtime:
    """What the owner named; else a key in the environment; else a local server; else the built-in model."""
    section = settings.model
    named = find_provider(provider) if provider else _provider_of(section)
    if named is not None:
        # Address, key, format and limits were written for the provider that the settings name, so that another's key
        # never travels to that address.
        written_for = _provider_of(section)
        if written_for is None:
            section = replace(section, key_env="")
        return _named_runtime(named, section if written_for in (named, None) else ModelSettings(), env, probe, model)
    return (
        _from_environment(section, env, model)
        or _from_local_server(section, probe, model)
        or _built_in(model or section.default, embedded_found)
    )


def runtime_of_entry(entry: Mapping[str, Any], env: Mapping[str, str]) -> Runtime:
    """A fallback entry made complete: address, key, protocol, window, output limit (D6)."""
    facts = find_provider(str(entry.get("provider") or "custom"))
    model = str(entry.get("model") or facts.default_model)
    return Runtime(
        provider=facts.name,
        model=model,
        base_url=str(entry.get("base_url") or find_address(facts, env)),
        api_key=str(entry.get("api_key") or find_key(facts, env, str(entry.get("key_env") or ""))),
        api_mode=str(entry.get("api_mode") or facts.api_mode),
        context_length=get_model_context_length(model, config_context_length=entry.get("context_length")),
        max_tokens=entry.get("max_tokens"),
        source="fallback",
        key_env=str(entry.get("key_env") or ""),
    )


def entry_of_runtime(runtime: Runtime) -> dict[str, Any]:
    """A model as an entry of a chain; its key is looked up anew when it is used."""
    names = ("provider", "model", "base_url", "key_env", "api_mode", "context_length", "max_tokens")
    return {name: getattr(runtime, name) for name in names if getattr(runtime, name)}


def find_key(provider: Provider, env: Mapping[str, str], key_env: str = "") -> str:
    names = (key_env, *provider.key_env) if key_env else provider.key_env
    return next((env[name].strip() for name in names if env.get(name, "").strip()), "")


def find_address(provider: Provider, env: Mapping[str, str]) -> str:
    """Where it is; a variable that a plugin names for it wins."""
    return next((env[name].strip() for name in provider.url_env if env.get(name, "").strip()), provider.base_url)


def needs_key(provider: Provider, base_url: str) -> bool:
    """Servers on this machine, the built-in model and own addresses may do without."""
    return (
        bool(provider.key_env) and provider.name != "custom" and base_url.rstrip("/") == provider.base_url.rstrip("/")
    )


def lacks_key(runtime: Runtime) -> bool:
    """Whether its provider asks for a key, and none is set."""
    return not runtime.api_key and needs_key(runtime.facts, runtime.base_url)


def _provider_of(section: ModelSettings) -> Provider | None:
    """Whom the settings name; an address alone means an own one."""
    name = section.provider or ("custom" if section.base_url else "")
    return find_provider(name) if name else None


def _make(facts: Provider, model: str, base_url: str, key: str, section: ModelSettings, source: str) -> Runtime:
    return Runtime(
        provider=facts.name,
        model=model,
        base_url=base_url,
        api_key=key,
        api_mode=section.api_mode or facts.api_mode,
        context_length=get_model_context_length(model, config_context_length=section.context_length),
        max_tokens=section.max_tokens,
        source=source,
    )


def _named_runtime(
    facts: Provider, section: ModelSettings, env: Mapping[str, str], probe: Probe, model: str
) -> Runtime:
    base_url = section.base_url or find_address(facts, env)
    if facts.name == "embedded":
        return _embedded_runtime("named in the settings")
    if not base_url:
        raise ConfigProblem(
            f"The provider '{facts.name}' has no address.",
            fix="Set it with: hermes config set model.base_url http://HOST:PORT/v1",
        )
    check_address(base_url)
    key = find_key(facts, env, section.key_env)
    model = model or section.default or facts.default_model or next(iter(fetch_models(facts, base_url, key)), "")
    if not model:
        model = _first_model(base_url, probe)
    made = _make(facts, model, base_url, key, section, "named in the settings")
    return replace(made, key_env=section.key_env)


def _first_model(base_url: str, probe: Probe) -> str:
    longer = base_url.rstrip("/") + "/v1"
    found = probe([base_url, longer])
    if base_url in found:
        return found[base_url][0]
    here, there = describe_address(base_url), describe_address(longer)
    if longer in found:
        raise ConfigProblem(
            f"No model server answers at {here}, but one does at {there}.",
            fix=f"Use that: hermes config set model.base_url {there}",
        )
    raise ConfigProblem(
        f"No model is named, and no model server answers at {here}.",
        fix="Start the server, or name a model with: hermes config set model.default NAME",
    )


def _from_environment(section: ModelSettings, env: Mapping[str, str], model: str) -> Runtime | None:
    for facts in list_known().values():
        key, address = find_key(facts, env), find_address(facts, env)
        chosen = model or section.default or facts.default_model
        if key and address and (chosen or facts.profile is None):
            name = next(name for name in facts.key_env if env.get(name, "").strip())
            return _make(facts, chosen, address, key, section, f"{name} is set")
    return None


def _from_local_server(section: ModelSettings, probe: Probe, model: str) -> Runtime | None:
    servers = {facts.base_url: facts for facts in PROVIDERS.values() if facts.local}
    answers = probe(list(servers))
    for base_url, facts in servers.items():
        models = answers.get(base_url)
        if models:
            chosen = model or section.default or models[0]
            return _make(facts, chosen, base_url, "", section, f"{facts.label} runs on this machine")
    return None


def _built_in(wanted: str, embedded_found: bool) -> Runtime:
    """What a person named is not answered for by another model in silence. A window or an output limit declared for
    another model does not fit this one."""
    if wanted and wanted != PROVIDERS["embedded"].default_model:
        raise ConfigProblem(
            f"Nobody here serves '{wanted}': no key is set, and no model server runs on this machine.",
            fix="Set a key, for example: hermes config set OPENROUTER_API_KEY; or leave the model out, and the small "
            "built-in one answers.",
        )
    if not embedded_found:
        raise ConfigProblem(
            "No model is set up: no key is in the environment, no model server runs on this machine, and the "
            "built-in model is not installed.",
            fix="Set a key, for example: hermes config set OPENROUTER_API_KEY; or run 'make chat', which installs "
            "the built-in model.",
        )
    return _embedded_runtime(NOTHING_ELSE)


def _embedded_runtime(source: str) -> Runtime:
    facts = PROVIDERS["embedded"]
    window = get_model_context_length(facts.default_model)
    return Runtime("embedded", facts.default_model, "", "", facts.api_mode, window, 1024, source)
