"""Calls into the profile of a provider that a plugin brings, each of them a boundary: what fails there is logged, and
the request goes on without it."""

import logging
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, TypeVar

from agent.providers.table import Provider
from providers.base import ProviderProfile

log = logging.getLogger(__name__)

T = TypeVar("T")
_NO_HEADERS: Mapping[str, str] = MappingProxyType({})


def overrides(facts: Provider, method: str) -> bool:
    """Whether the plugin has a way of its own in this."""
    if facts.profile is None:
        return False
    own = getattr(facts.profile, method)
    return getattr(own, "__func__", own) is not getattr(ProviderProfile, method)


def ask_profile(facts: Provider, what: str, work: Callable[[], T], otherwise: T) -> T:
    try:
        return work()
    except Exception:
        log.warning("the provider %s failed in %s; going on without it", facts.name, what, exc_info=True)
        return otherwise


def find_headers(facts: Provider) -> Mapping[str, str]:
    """What every request to this provider carries in its head."""
    profile = facts.profile
    if profile is None:
        return _NO_HEADERS
    found: dict[str, Any] = ask_profile(facts, "default_headers", lambda: dict(profile.default_headers or {}), {})
    return {str(name): value for name, value in found.items() if isinstance(value, str)}


def fetch_models(facts: Provider, base_url: str, key: str) -> Sequence[str]:
    """The models that the provider lists, else those that its plugin knows of; none where no plugin brings it."""
    profile = facts.profile
    if profile is None:
        return ()
    fetch = profile.fetch_models
    listed = ask_profile(facts, "fetch_models", lambda: fetch(api_key=key or None, base_url=base_url or None), None)
    return [str(model) for model in listed or profile.fallback_models]
