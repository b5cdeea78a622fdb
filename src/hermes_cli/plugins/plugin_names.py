"""Whom a word in the settings means when several plugins answer to it: none runs under the name of another (G10)."""

import logging
from collections.abc import Collection, Sequence

from hermes_cli.plugins import plugin_seals
from hermes_cli.plugins.plugin_models import is_named
from hermes_cli.plugins.plugin_records import PluginManifest

log = logging.getLogger("hermes_cli.plugins")


def find_pretenders(
    found: Sequence[PluginManifest], enabled: Collection[str], models: Collection[str]
) -> frozenset[str]:
    """The plugins that only share words with others which are meant by them: those whose code the owner agreed to, or
    else the one whose key such a word is."""
    meant: set[str] = set()
    claiming: set[str] = set()
    for word in {*enabled, *models}:
        claims = [one for one in found if _answers(one, word, enabled, models)]
        agreed = [one for one in claims if one.source == "bundled" or plugin_seals.is_agreed(one.id)]
        keyed = [one for one in claims if one.id == word]
        claiming |= {one.id for one in claims}
        meant |= {one.id for one in agreed or keyed or claims}
    for name in sorted(claiming - meant):
        log.warning("plugin %s answers to a name in the settings by which another one is meant; it does not run", name)
    return frozenset(claiming - meant)


def _answers(manifest: PluginManifest, word: str, enabled: Collection[str], models: Collection[str]) -> bool:
    return (word in enabled and word in (manifest.id, manifest.name)) or (word in models and is_named(manifest, {word}))
