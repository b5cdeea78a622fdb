"""Words that plugins are written against and that mean something of ours: names of platforms, why a session ends."""

from collections.abc import Mapping
from types import MappingProxyType

_PLATFORMS: Mapping[str, str] = MappingProxyType({"local": "cli", "api": "api_server", "mail": "email"})


def name_platform(platform: str) -> str:
    """What plugins call a platform."""
    return _PLATFORMS.get(platform, platform)
