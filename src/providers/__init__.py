"""The providers of models that plugins bring, by name and alias. Importing this loads none of them."""

from collections.abc import Callable, Sequence

from hermes_base.house_opening import PLUGIN_HOST, open_house
from providers.base import OMIT_TEMPERATURE, ProviderProfile

__all__ = ["OMIT_TEMPERATURE", "ProviderProfile", "get_provider_profile", "list_providers", "register_provider"]

_registered: list[ProviderProfile] = []  # in their order; of two with one name the later counts


def _ask_host() -> None:
    """Nobody has put a plugin host here yet; it does so when it is imported."""
    open_house(PLUGIN_HOST)
    if load_plugins is not _ask_host:
        load_plugins()


#: Loads the plugins that the owner lets run; the plugin host puts itself here.
load_plugins: Callable[[], None] = _ask_host


def register_provider(profile: ProviderProfile) -> None:
    """Make a provider known under its name and its aliases; the last one that takes a name has it."""
    if not isinstance(profile, ProviderProfile) or not _fold(profile.name):
        raise TypeError("register_provider takes a ProviderProfile with a name")
    _registered.append(profile)


def get_provider_profile(name: str) -> ProviderProfile | None:
    """The provider of this name or alias, for which plugins are loaded if they were not."""
    found = find_registered(name)
    if found is None and _fold(name):
        load_plugins()
        found = find_registered(name)
    return found


def list_providers() -> list[ProviderProfile]:
    load_plugins()
    return list_registered()


# --- for the host


def find_registered(name: str) -> ProviderProfile | None:
    """The same as `get_provider_profile` among those that are there."""
    wanted = _fold(name)
    by_name = (profile for profile in reversed(_registered) if _fold(profile.name) == wanted)
    by_alias = (profile for profile in reversed(_registered) if wanted in map(_fold, profile.aliases))
    return next(by_name, None) or next(by_alias, None)


def list_registered() -> list[ProviderProfile]:
    """Those that are there, each name once."""
    return list({_fold(profile.name): profile for profile in _registered}.values())


def count_registered() -> int:
    return len(_registered)


def registered_since(count: int) -> Sequence[ProviderProfile]:
    """What was registered after there were so many."""
    return _registered[count:]


def forget_provider(profile: ProviderProfile) -> None:
    _registered[:] = [known for known in _registered if known is not profile]


def _fold(name: str) -> str:
    return name.strip().lower() if isinstance(name, str) else ""
