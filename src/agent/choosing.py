"""Which provider a person chose to be answered by: what there is to choose, whether it can be, and how it is kept.

A stored key goes to the address that it was stored for and to no other, whatever somebody asks for.
"""

from collections.abc import Mapping, Sequence
from urllib.parse import urlsplit

from agent import probing
from agent.auxiliary_client import environment
from agent.providers.local_servers import probe_model_servers
from agent.providers.runtime import Runtime, find_key, needs_key, runtime_of_entry
from agent.providers.table import PROVIDERS, Provider, find_provider, provider_or_custom
from hermes_base.errors import ConfigProblem
from hermes_base.query_values import ProviderChoice, ProviderView
from hermes_base.settings import ModelSettings
from hermes_base.text.addresses import check_address, describe_address
from hermes_cli import config as cli_config
from hermes_cli.config.lent_env import find_exported

_NOT_OFFERED = frozenset({"embedded"})  # it answers by itself where nothing else is set up
_UNCHANGED = "Nothing was changed."
#: Settings of `model` that belong to what was chosen before, and what they depend on.
_OF_THE_FORMER: Mapping[str, frozenset[str]] = {
    "key_env": frozenset({"provider", "key"}),
    "api_mode": frozenset({"provider", "base_url"}),
    "context_length": frozenset({"provider", "default"}),
    "max_tokens": frozenset({"provider", "default"}),
}
#: Settings of `model` that hold for the provider that is named beside them.
_WRITTEN_FOR = ("base_url", "key_env", "api_mode")


def list_providers() -> Sequence[ProviderView]:
    """All that can be chosen; asks the ports of local servers, so it blocks for a moment."""
    env, section = environment(), cli_config.load_settings().model
    models = probe_model_servers([facts.base_url for facts in PROVIDERS.values() if facts.local])
    return [_view(facts, env, section, models) for facts in PROVIDERS.values() if facts.name not in _NOT_OFFERED]


def _view(
    facts: Provider, env: Mapping[str, str], section: ModelSettings, models: Mapping[str, Sequence[str]]
) -> ProviderView:
    asks = not facts.base_url
    own = section.base_url if asks and _is_named(facts, section) else ""
    found = models.get(facts.base_url) or ()
    return ProviderView(
        facts.name,
        facts.label,
        needs_key=needs_key(facts, facts.base_url),
        key_env=facts.key_env[0] if facts.key_env else "",
        has_key=bool(find_key(facts, env, _key_name(facts, section))),
        default_model=facts.default_model or (found[0] if found else ""),
        base_url=describe_address(own) if own else facts.base_url,
        asks_address=asks,
        local=facts.local,
    )


def runtime_of_choice(choice: ProviderChoice) -> Runtime:
    """What the choice means, complete; ConfigProblem when it cannot be called as it stands."""
    facts = find_provider(choice.provider)
    address = _find_address(facts, choice.base_url.strip())
    key = choice.key.strip() or _find_stored_key(facts, address)
    if not key and needs_key(facts, address):
        raise ConfigProblem(f"{facts.label} needs a key.", kept=_UNCHANGED, fix="Paste the one that it gave you.")
    model = choice.model.strip() or facts.default_model or _first_model(facts, address)
    return runtime_of_entry({"provider": facts.name, "model": model, "base_url": address, "api_key": key}, {})


def _find_address(facts: Provider, given: str) -> str:
    section = cli_config.load_settings().model
    address = given or (section.base_url if _is_named(facts, section) else "") or facts.base_url
    if facts.name in _NOT_OFFERED:
        return ""
    check_address(address, kept=_UNCHANGED)
    if "@" in urlsplit(address).netloc:
        raise ConfigProblem(
            "The address holds a user name or a password.", kept=_UNCHANGED, fix="Give the secret as the key."
        )
    return address


def _find_stored_key(facts: Provider, address: str) -> str:
    section = cli_config.load_settings().model
    key = find_key(facts, environment(), _key_name(facts, section))
    known = {facts.base_url.rstrip("/")}
    if _is_named(facts, section):
        known.add(section.base_url.rstrip("/"))
    wants_one = bool(key) or needs_key(facts, facts.base_url)
    if wants_one and address.rstrip("/") not in known:
        raise ConfigProblem(
            f"A key that is kept for {facts.label} is not sent to another address.",
            kept=_UNCHANGED,
            fix="Give the key for this address, too.",
        )
    return key


def _is_named(facts: Provider, section: ModelSettings) -> bool:
    """Whether the settings name this provider; an address alone means an own one."""
    return provider_or_custom(section.provider or "custom") is facts


def _key_name(facts: Provider, section: ModelSettings) -> str:
    """The variable that the settings name for this provider's key."""
    return section.key_env if _is_named(facts, section) else ""


def _first_model(facts: Provider, address: str) -> str:
    found = probe_model_servers([address, longer := address.rstrip("/") + "/v1"])
    if address in found:
        return found[address][0]
    if longer in found:
        what = f"No model server answers at {address}, but one does at {longer}."
        raise ConfigProblem(what, kept=_UNCHANGED, fix="Use that address.")
    who = "the server" if facts.name == "custom" else facts.label
    raise ConfigProblem(
        f"No model is named, and {who} at {address} does not tell which it has.",
        kept=_UNCHANGED,
        fix="Check the address and that the server runs; if both are right, name a model.",
    )


def use_choice(choice: ProviderChoice, seconds: float = probing.SECONDS) -> probing.ProbeResult:
    """Probe, and keep the choice if the probe went through; otherwise nothing is written (H5)."""
    runtime = runtime_of_choice(choice)
    facts, key = find_provider(runtime.provider), choice.key.strip()
    # Where the key is kept; empty: there is none to keep.
    variable = (facts.key_env or PROVIDERS["custom"].key_env)[0] if key else ""
    if variable and find_exported(variable) not in ("", key):
        raise ConfigProblem(
            f"{variable} is set in the environment of this program, and that wins over a key kept here.",
            kept=_UNCHANGED,
            fix="Change it there, or take it out and start Hermes again.",
        )
    cli_config.load_settings()  # those that cannot be read cannot be changed: say so before the call
    result = probing.probe(runtime, seconds)
    if result.probed.ok:
        keep(runtime, variable)
    return result


def leave_former(name: str) -> list[str]:
    """Before the settings name this provider: what was written for another one goes, and the name changes in the same
    step, so that no key is sent to another's address. Returns what went. An address stays for `custom`, which has none
    of its own."""
    facts = find_provider(name, kept=_UNCHANGED)
    try:
        settings = cli_config.load_config()  # noqa: TID251 - what is saved is a mapping
    except ConfigProblem:  # of which this change may be the cure
        return []
    section = settings["model"]
    former = section["provider"] or ("custom" if section["base_url"] else "")
    stays = {"base_url"} if facts.name == "custom" else set()
    is_other = bool(former) and provider_or_custom(former) is not facts
    gone = [each for each in _WRITTEN_FOR if is_other and each not in stays and section[each]]
    if gone:
        section.update({"provider": name}, **{each: getattr(ModelSettings(), each) for each in gone})
        cli_config.save_config(settings)
    return gone


def keep(runtime: Runtime, variable: str = "") -> None:
    """Write provider, model and address in one step, after the key: no call ever pairs a key with another's address."""
    settings = cli_config.load_config()  # noqa: TID251 - what is saved is a mapping
    facts, section = runtime.facts, settings["model"]
    is_own = runtime.base_url.rstrip("/") != facts.base_url.rstrip("/")
    base_url = runtime.base_url if is_own else ""
    chosen = {"provider": runtime.provider, "default": runtime.model, "base_url": base_url}
    changed = {name for name, value in chosen.items() if section.get(name) != value}
    changed |= {"key"} if variable else set()
    section.update({name: getattr(ModelSettings(), name) for name, of in _OF_THE_FORMER.items() if of & changed})
    section.update(chosen)
    if variable and variable not in facts.key_env:
        section["key_env"] = variable
    cli_config.save_together({variable: runtime.api_key} if variable else {}, settings)
