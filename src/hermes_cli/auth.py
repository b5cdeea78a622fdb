"""The providers and the variables of their keys, as plugins read them: a view of what there is now."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import providers
from agent.providers.table import Provider, list_known


@dataclass(frozen=True, slots=True)
class ProviderConfig:
    id: str
    name: str
    auth_type: str = "api_key"
    inference_base_url: str = ""
    api_key_env_vars: tuple[str, ...] = ()
    base_url_env_var: str = ""


class ProviderRegistryView(Mapping[str, ProviderConfig]):
    """By the provider's id. Those of plugins are in it as soon as they are loaded, which looking into it does."""

    def __getitem__(self, name: str) -> ProviderConfig:
        return _describe(_load()[name])

    def __iter__(self) -> Iterator[str]:
        return iter(_load())

    def __len__(self) -> int:
        return len(_load())


def _load() -> Mapping[str, Provider]:
    providers.load_plugins()
    return list_known()


def _describe(facts: Provider) -> ProviderConfig:
    auth = facts.profile.auth_type if facts.profile is not None else "api_key"
    return ProviderConfig(facts.name, facts.label, auth, facts.base_url, facts.key_env, "".join(facts.url_env[:1]))


PROVIDER_REGISTRY: Mapping[str, ProviderConfig] = ProviderRegistryView()
