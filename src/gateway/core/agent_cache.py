"""The policy of the agent cache, pure: what makes an agent the wrong one, which entries go, which stay."""

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from hermes_base.settings import Settings

#: Settings that are baked into an agent: a change of one of them needs a new agent. An agent is built from these alone
#: (`pick_baked`); all others reach it with each turn.
CACHE_BUSTING_KEYS: tuple[tuple[str, str], ...] = (
    ("model", "context_length"),
    ("model", "max_tokens"),
    ("compression", "enabled"),
    ("compression", "threshold"),
    ("compression", "target_ratio"),
    ("compression", "protect_first_n"),
    ("compression", "protect_last_n"),
    ("compression", "in_place"),
    ("compression", "abort_on_summary_failure"),
    ("agent", "context_files"),
    ("context", "engine"),
    ("memory", "memory_enabled"),
    ("memory", "provider"),
    ("browser", "enabled"),
    ("browser", "program"),
    ("browser", "cdp_url"),
    ("browser", "cloud_provider"),
    ("tools", "direct_bytes"),
)
_RUNTIME_KEYS = ("provider", "base_url", "api_mode")


def config_signature(
    model: str,
    runtime: Mapping[str, Any],
    toolsets: Sequence[str],
    ephemeral_prompt: str,
    cache_keys: Mapping[str, Any] | None,
) -> str:
    """One text for everything that an agent is built from; the key goes in whole, as a hash."""
    key = hashlib.sha256(str(runtime.get("api_key") or "").encode("utf-8", "surrogatepass")).hexdigest()
    parts = {
        "model": model,
        "key": key,
        "runtime": [runtime.get(name) or "" for name in _RUNTIME_KEYS],
        "toolsets": sorted(toolsets or ()),
        "prompt": ephemeral_prompt or "",
        "settings": dict(cache_keys or {}),
    }
    text = json.dumps(parts, sort_keys=True, default=str)
    return hashlib.sha256(text.encode()).hexdigest()


def extract_cache_busting(config: Mapping[str, Any] | None, registry_generation: int) -> dict[str, Any]:
    """The values of the settings above; None for what is missing or of the wrong form."""
    found = {f"{section}.{key}": _value(config, section, key) for section, key in CACHE_BUSTING_KEYS}
    return {**found, "tools.registry_generation": registry_generation}


def pick_baked(settings: Settings) -> dict[str, dict[str, Any]]:
    """The settings that an agent may be built from: those that the signature stands for, and no others."""
    picked: dict[str, dict[str, Any]] = {}
    for section, key in CACHE_BUSTING_KEYS:
        picked.setdefault(section, {})[key] = getattr(getattr(settings, section), key)
    return picked


def _value(config: Mapping[str, Any] | None, section: str, key: str) -> Any:
    part = config.get(section) if isinstance(config, Mapping) else None
    return part.get(key) if isinstance(part, Mapping) else None


def over_cap(keys_oldest_first: Sequence[str], active: Iterable[str], cap: int) -> tuple[list[str], int]:
    """Which of the oldest entries beyond the cap go, and how many of those stay because they are in mid-turn.

    A newer entry never goes in the place of an older one that happens to be busy.
    """
    excess = keys_oldest_first[: max(0, len(keys_oldest_first) - cap)]
    busy = set(active)
    going = [key for key in excess if key not in busy]
    return going, len(excess) - len(going)


def idle_keys(last_activity: Mapping[str, float], active: Iterable[str], now: float, limit: float) -> list[str]:
    """The entries that nobody used for longer than the limit."""
    busy = set(active)
    return [key for key, moment in last_activity.items() if key not in busy and now - moment > limit]


@dataclass(frozen=True, slots=True)
class HeldTranscript:
    """What a cached agent holds of its conversation: which transcript, up to where, and how large it is."""

    session: str
    version: int
    bytes: int = 0
    unsaved: bool = False  # it holds rows that the store does not have yet


def untouchable(active: Iterable[str], held: Mapping[str, HeldTranscript]) -> frozenset[str]:
    """The entries that no limit sheds: those in mid-turn and those with rows that are not stored."""
    return frozenset(active) | {key for key, each in held.items() if each.unsaved}


def over_bytes(
    sizes_oldest_first: Sequence[tuple[str, int]], active: Iterable[str], limit: int
) -> tuple[list[str], int]:
    """Which entries go so that the others fit into the limit, the oldest first, and by how many bytes they still do
    not fit because of those that must stay."""
    busy = set(active)
    excess = sum(size for _, size in sizes_oldest_first) - limit
    going: list[str] = []
    for key, size in sizes_oldest_first:
        if excess <= 0:
            break
        if key not in busy and size > 0:
            going.append(key)
            excess -= size
    return going, max(0, excess)
