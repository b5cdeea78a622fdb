"""What somebody should know who sets a setting of a plugin."""

import difflib
from collections.abc import Iterator

from hermes_cli.plugins.plugin_sources import find_manifests
from plugins import context_engine


def find_notes(key: str) -> Iterator[str]:
    """For a setting that was set just now; no plugin is run."""
    words = key.split(".")
    if key == "context.engine" and context_engine.find_missing():
        yield "No folder holds it, so an enabled plugin has to bring it; `hermes doctor` says whether one does."
    if words[:2] != ["plugins", "entries"] or len(words) < 3:
        return
    known = {name for manifest in find_manifests() for name in (manifest.id, manifest.name)}
    if words[2] not in known:
        near = difflib.get_close_matches(words[2], sorted(known), n=1)
        yield f"No plugin is called {words[2]}.{f' Did you mean {near[0]}?' if near else ''}"
