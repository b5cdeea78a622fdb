"""Providers of models in plugins: which ones the settings name, read without running them, and whose is what."""

import ast
import logging
from collections.abc import Collection, Iterable, Iterator, Sequence
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import providers
from agent.providers.table import is_ours
from hermes_base.errors import ConfigProblem
from hermes_cli import config as cli_config

if TYPE_CHECKING:
    from hermes_cli.plugins.plugin_records import LoadedPlugin, PluginManifest

log = logging.getLogger("hermes_cli.plugins")

OFFER = "model_provider"
_KIND = "model-provider"


def read_wanted() -> frozenset[str]:
    """The providers that the owner's settings name and that are not ours; settings that cannot be used name none."""
    try:
        model = cli_config.load_settings().model
    except ConfigProblem:
        return frozenset()
    named = (model.provider, *(entry.get("provider") or "" for entry in model.fallbacks))
    return frozenset(name.strip().lower() for name in named if name.strip() and not is_ours(name))


def is_waiting(plugin: "LoadedPlugin") -> bool:
    """Whether a provider's plugin may be loaded and was not."""
    return plugin.manifest.kind == _KIND and plugin.module is None and plugin.error is None


def is_named(manifest: "PluginManifest", names: Collection[str]) -> bool:
    """Whether one of these names means the plugin: its own, its folder's, or one that its code gives a provider."""
    if not names or manifest.kind != _KIND or not manifest.path:
        return False
    folder = Path(manifest.path)
    own = {manifest.id.lower(), manifest.name.lower(), folder.name.lower()}
    return bool(own & set(names)) or bool(_read_names(folder / "__init__.py") & set(names))


def _read_names(file: Path) -> frozenset[str]:
    try:
        return _find_names(file.read_text(encoding="utf-8-sig"))
    except (OSError, UnicodeDecodeError):
        return frozenset()


@lru_cache(maxsize=64)
def _find_names(code: str) -> frozenset[str]:
    """Names and aliases that a text of Python gives to profiles, as far as they are plain words; nothing is run."""
    try:
        tree = ast.parse(code)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return frozenset()
    values = (value for node in ast.walk(tree) for value in _list_values(node))
    words = (part for value in values for part in ast.walk(value) if isinstance(part, ast.Constant))
    return frozenset(word.value.strip().lower() for word in words if isinstance(word.value, str)) - {""}


def _list_values(node: ast.AST) -> Iterator[ast.expr]:
    """What stands behind `name =` and `aliases =`, in a call or in a class."""
    if isinstance(node, ast.keyword):
        names = {node.arg}
    elif isinstance(node, ast.Assign):
        names = {getattr(target, "id", None) for target in node.targets}
    elif isinstance(node, ast.AnnAssign):
        names = {getattr(node.target, "id", None)}
    else:
        return
    if names & {"name", "aliases"} and node.value is not None:
        yield node.value


def refuse_failed(name: str, plugins: "Iterable[LoadedPlugin]") -> None:
    """ConfigProblem when a plugin that brings this provider does not run, with the reason."""
    for plugin in plugins:
        if plugin.error is not None and is_named(plugin.manifest, {name.strip().lower()}):
            key = plugin.manifest.id
            what = f"The plugin {key}, which brings the provider {name}, does not run: {plugin.error}."
            fix = f"Look at it: hermes plugins info {key}; then: hermes plugins enable {key}"
            raise ConfigProblem(what, kept="Nothing was changed.", fix=fix)


def settle_models(plugin: str, before: int, *, keep: bool) -> list[tuple[str, Any]]:
    """What a plugin registered since there were so many providers, as its offers; of one that failed nothing stays."""
    made = list(providers.registered_since(before))
    if not keep:
        forget_models([(OFFER, profile) for profile in made])
        return []
    for taken in sorted({name for profile in made for name in (profile.name, *profile.aliases) if is_ours(name)}):
        log.warning("plugin %s brings a provider called %s, which is built in; the built-in one answers", plugin, taken)
    return [(OFFER, profile) for profile in made]


def forget_models(offers: Sequence[tuple[str, Any]]) -> None:
    for kind, profile in offers:
        if kind == OFFER:
            providers.forget_provider(profile)
