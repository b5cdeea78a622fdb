"""Which skills are turned off (`skills.disabled`, `skills.platform_disabled`), for plugins that read and change it."""

from collections.abc import Collection, Mapping, MutableMapping
from typing import Any

from hermes_cli.config import save_config


def get_disabled_skills(config: Mapping[str, Any] | None, platform: str | None = None) -> set[str]:
    """The names that these settings turn off, everywhere and on this platform."""
    section = _section(config)
    return _names(section.get("disabled")) | _names(_section(section, "platform_disabled").get(platform or ""))


def save_disabled_skills(
    config: MutableMapping[str, Any], disabled: Collection[str], platform: str | None = None
) -> None:
    """Turn off exactly these, everywhere or (beside those) on one platform: in the mapping and in the file."""
    section = dict(_section(config))
    if platform:
        section["platform_disabled"] = {**_section(section, "platform_disabled"), platform: sorted(disabled)}
    else:
        section["disabled"] = sorted(disabled)
    config["skills"] = section
    save_config(config)


def _section(config: Mapping[str, Any] | None, name: str = "skills") -> Mapping[str, Any]:
    found = (config or {}).get(name)
    return found if isinstance(found, Mapping) else {}


def _names(value: Any) -> set[str]:
    every = [value] if isinstance(value, str) else value if isinstance(value, list | tuple | set) else []
    return {str(name) for name in every}
