"""Which plugins may be loaded, and when: decided from their manifests and from what the owner's settings name. Pure."""

from collections.abc import Collection, Mapping
from enum import Enum
from types import MappingProxyType

from hermes_cli.plugins.plugin_models import is_named
from hermes_cli.plugins.plugin_records import MODEL_PROVIDER, PluginManifest

DISABLED = "disabled via config"
NOT_ENABLED = "not enabled in config"
NO_WORDS: frozenset[str] = frozenset()


class PluginGate(Enum):
    """What discovery does with a plugin."""

    LOAD = "load"
    DISABLED = DISABLED
    NOT_ENABLED = NOT_ENABLED
    ELSEWHERE = "recorded; its category's own loader takes it when its setting names it"
    KNOWN = "imported when model.provider or a fallback names it"
    DEFERRED = "imported when it is needed"


#: Kinds with a way of their own, for every source or (with a source) for one; all others need `plugins.enabled`.
_GATES: Mapping[tuple[str, str], PluginGate] = MappingProxyType(
    {
        ("exclusive", ""): PluginGate.ELSEWHERE,
        (MODEL_PROVIDER, ""): PluginGate.KNOWN,
        ("backend", "bundled"): PluginGate.LOAD,
        ("platform", "bundled"): PluginGate.DEFERRED,
    }
)


def decide_gate(
    manifest: PluginManifest, enabled: Collection[str], disabled: Collection[str], models: Collection[str] = NO_WORDS
) -> PluginGate:
    """Whether a plugin's code may run: only by consent of the owner, who names it in the settings, or (`models`) there
    names the provider of models that it brings."""
    names = {manifest.id, manifest.name}
    if names & set(disabled):
        return PluginGate.DISABLED
    if manifest.kind == MODEL_PROVIDER and (names & set(enabled) or is_named(manifest, models)):
        return PluginGate.LOAD
    by_kind = _GATES.get((manifest.kind, "")) or _GATES.get((manifest.kind, manifest.source))
    if by_kind is not None:
        return by_kind
    return PluginGate.LOAD if names & set(enabled) else PluginGate.NOT_ENABLED
