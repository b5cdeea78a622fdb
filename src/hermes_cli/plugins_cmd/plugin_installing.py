"""`hermes plugins install`: fetches a plugin, shows what it would register, puts it in place and asks what next."""

import argparse
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hermes_base.errors import ConfigProblem
from hermes_base.text.harmless import clean_name, clean_shown
from hermes_cli import config
from hermes_cli.plugins import plugin_models
from hermes_cli.plugins.manifest_fields import read_fields
from hermes_cli.plugins.plugin_sources import MANIFESTS, find_manifests, read_manifest_fields
from hermes_cli.plugins_cmd import (
    package_plugins,
    plugin_choices,
    plugin_needs,
    plugin_placing,
    plugin_telling,
    source_names,
)
from hermes_cli.plugins_cmd.plugin_asking import agree, ask_text, is_person_there
from hermes_cli.plugins_cmd.plugin_fetching import FetchedPlugin, fetch
from hermes_cli.plugins_cmd.plugin_looking import PluginLook, look
from hermes_cli.plugins_cmd.plugin_needs import PluginNeeds
from hermes_cli.plugins_cmd.source_names import PACKAGE, PluginSource, name_source, read_source

NEWEST_MANIFEST = 1
_KEPT = "Nothing was installed."
_AFTER, _MOST_AFTER = "after-install.md", 8_000
_EXAMPLE = ".example"


@dataclass(frozen=True, slots=True)
class Coming:
    """A plugin that was fetched and read, and is not in its place yet."""

    name: str
    folder: Path
    fields: Mapping[str, Any]
    source: PluginSource
    commit: str
    files: Mapping[str, str]
    left_out: tuple[str, ...]
    seen: PluginLook
    needs: PluginNeeds


def run_install(parsed: argparse.Namespace) -> int:
    source = read_source(parsed.source)
    question = f"{parsed.source} is no folder here. Install the package of this name from the package index?"
    if source_names.is_bare_name(parsed.source) and not agree(question):
        fix = f"A repository is owner/repo; a package is pip:{parsed.source}."
        raise ConfigProblem(f"{parsed.source!r} does not say where it is.", kept=_KEPT, fix=fix)
    if source_names.is_unprotected(source):
        print("Warning: http:// is not protected. Somebody on the way could put other code in its place.")
    if source.kind == PACKAGE:
        return package_plugins.install_package(source, parsed)
    with plugin_placing.make_scratch() as scratch:
        print(f"Fetching {source} …", flush=True)
        coming = prepare(fetch(source, scratch), source)
        tell_coming(coming)
        if parsed.dry_run:
            _tell_plan(coming.needs, scratch)
            print("Nothing was changed (--dry-run).")
            return 0
        _put_in_place(coming, scratch, force=parsed.force)
        print(f"{coming.name} is installed in {plugin_placing.find_root() / coming.name}.")
        ask_variables(coming.fields)
        install_needs(coming.needs, scratch, parsed.dependencies)
    _show_after(plugin_placing.find_root() / coming.name)
    return offer_enabling(coming.name, parsed.enable)


# --- reading what came


def prepare(fetched: FetchedPlugin, source: PluginSource) -> Coming:
    """Read a plugin that was fetched; ConfigProblem when it cannot be used here."""
    folder = fetched.folder
    fields = read_manifest_fields(folder)
    if fields is None:
        fix = "It holds fields, as in `name: word-count`; what is wrong with it stands above."
        raise ConfigProblem("Its plugin.yaml cannot be read.", kept=_KEPT, fix=fix)
    version = fields.get("manifest_version", NEWEST_MANIFEST)
    if not _is_known_version(version):
        what = f"Its manifest is of version {version}, and this Hermes reads version {NEWEST_MANIFEST}."
        raise ConfigProblem(what, kept=_KEPT, fix="Update Hermes.")
    if not (folder / "__init__.py").is_file():
        raise ConfigProblem("It is no plugin: there is no __init__.py beside its plugin.yaml.", kept=_KEPT)
    if (folder / plugin_placing.ORIGIN).is_dir():
        raise ConfigProblem(f"It holds a folder {plugin_placing.ORIGIN}, which is a file of ours.", kept=_KEPT)
    name = plugin_placing.check_name(read_fields(fields).texts["name"] or name_source(source))
    files = plugin_placing.list_files(folder)
    seen = look(folder)
    needs = plugin_needs.read_needs(folder, seen)
    return Coming(name, folder, fields, source, fetched.commit, files, fetched.left_out, seen, needs)


def _is_known_version(given: Any) -> bool:
    """Also where it was written as a text, or as 1.0."""
    try:
        return float(given) <= NEWEST_MANIFEST
    except (TypeError, ValueError):
        return False


def tell_coming(coming: Coming) -> None:
    fields, seen, read = coming.fields, coming.seen, read_fields(coming.fields)
    about = [read.texts[key] for key in ("version", "author") if read.texts[key]]
    print(f"{coming.name}{''.join(f', {clean_name(fact)}' for fact in about)}")
    if read.texts["description"]:
        print(f"    {clean_name(read.texts['description'])}")
    for fault in read.faults:
        print(f"    {clean_name(fault)}")
    if coming.commit:
        print(f"    commit {clean_name(coming.commit)}")
    plugin_telling.tell_look(seen)
    variables = [name for name, _ in read_variables(fields)]
    if variables:
        print(f"    needs variables: {', '.join(map(clean_name, variables))}")
    tell_needs(coming.needs)
    tell_left_out(coming)


def tell_left_out(coming: Coming) -> None:
    if coming.left_out:
        names = ", ".join(map(clean_name, coming.left_out))
        print(f"    not taken along, since databases are data and no code: {names}")


def tell_needs(needs: PluginNeeds) -> None:
    for title, lines in (
        ("needs packages", needs.lines),
        ("names packages that are yours to install (an address, a path or an option)", needs.refused),
        ("imports what is not installed and what it does not name", needs.unlisted),
    ):
        if lines:
            print(f"    {title}: {clean_name(', '.join(lines))}")


# --- into its place


def _put_in_place(coming: Coming, scratch: Path, *, force: bool) -> None:
    target = plugin_placing.find_root() / coming.name
    others = [
        known for known in find_manifests() if coming.name in (known.id, known.name) and known.path != str(target)
    ]
    if others and not force:
        what = f"There is a plugin {coming.name} already, in {others[0].path} ({others[0].source})."
        raise ConfigProblem(what, kept=_KEPT, fix="--force installs this one beside it.")
    if not force:
        plugin_placing.check_free(target)  # before anything is taken back: what stands there stays as it is, enabled
    if force and target.is_dir():
        carry_examples(target, coming.folder)
    data = plugin_placing.find_own_data(target) if force and target.is_dir() else []
    own = {name: name for name in data if name not in coming.files}
    finish(coming)
    # That the settings name it is no consent to what comes now (G10).
    plugin_choices.write_names("enabled", plugin_choices.read_names("enabled", without={coming.name}))
    plugin_placing.place(coming.folder, target, scratch, force, own)


def finish(coming: Coming) -> None:
    """Note where it came from, and make its own files from examples."""
    plugin_placing.write_origin(coming.folder, coming.source, coming.commit, coming.files)
    for example, path in list_examples(coming.folder):
        if not path.exists():
            path.write_bytes(example.read_bytes())


def list_examples(folder: Path) -> Iterator[tuple[Path, Path]]:
    for example in sorted(folder.rglob(f"*{_EXAMPLE}")):
        path = example.with_name(example.name.removesuffix(_EXAMPLE))
        # These would come after everybody has looked.
        is_code = path.suffix in (".py", ".so") or path.name in (*MANIFESTS, plugin_placing.ORIGIN)
        if example.is_file() and not example.is_symlink() and example.name != _EXAMPLE and not is_code:
            yield example, path


def carry_examples(old: Path, new: Path) -> None:
    """What a person made of an example stays theirs."""
    for _, path in list_examples(new):
        own = old / path.relative_to(new)
        if own.is_file() and not own.is_symlink() and not path.exists():
            path.write_bytes(own.read_bytes())


# --- what it needs


def read_variables(fields: Mapping[str, Any]) -> Iterator[tuple[str, Mapping[str, Any]]]:
    for entry in read_fields(fields).lists["requires_env"]:
        facts = entry if isinstance(entry, Mapping) else {"name": entry}
        name = str(facts.get("name") or "").strip()
        if config.is_env_name(name):
            yield name, facts


def ask_variables(fields: Mapping[str, Any]) -> None:
    """Ask for the variables that are not set, and keep what is typed in `.env`."""
    missing = [(name, facts) for name, facts in read_variables(fields) if not config.env_value(name)]
    if missing and not is_person_there():
        print(f"Not set yet: {', '.join(name for name, _ in missing)}. To set one: hermes config set NAME VALUE")
        return
    for name, facts in missing:
        for key in ("description", "url"):
            if facts.get(key):
                print(f"    {clean_name(str(facts[key]))}")
        typed = ask_text(f"{name} (Enter leaves it out): ", secret=facts.get("secret") is not False)
        if typed is None:
            print(f"{name} is not set. To set it: hermes config set {name} VALUE")
            continue
        try:
            config.set_value(name, typed)
        except ConfigProblem as problem:
            print(str(problem))


def install_needs(needs: PluginNeeds, scratch: Path, given: bool | None) -> None:
    """Install packages after a question; where that is not ours to do, the command is printed."""
    if not needs.lines:
        return
    if not plugin_needs.is_ours_to_change():
        print("The environment of Hermes cannot be changed from here. To install what the plugin needs:")
        print(f"    {plugin_needs.name_command(needs.lines)}")
        return
    try:
        found = package_plugins.make_plan(needs.lines, scratch)
        if found is None or not found.packages:
            return
        print(f"To be installed beside what is there: {', '.join(found.packages)}")
        if agree("Install them?", given):
            plugin_needs.install(found, scratch)
            print("Installed.")
            return
    except plugin_needs.PipFailed as problem:
        print(problem)
    print(f"Not installed. The command is: {plugin_needs.name_command(needs.lines)}")


def _tell_plan(needs: PluginNeeds, scratch: Path) -> None:
    if not needs.lines or not plugin_needs.is_ours_to_change():
        return
    try:
        found = plugin_needs.plan(needs.lines, scratch)
        print(f"Packages that would be installed: {', '.join(found.packages) or 'none'}")
    except plugin_needs.PipFailed as problem:
        print(problem)


def _show_after(folder: Path) -> None:
    path = folder / _AFTER
    if path.is_file() and not path.is_symlink():
        text = path.read_text(encoding="utf-8", errors="replace")
        print(f"\n{clean_shown(text[:_MOST_AFTER]).strip()}\n")


def offer_enabling(name: str, given: bool | None) -> int:
    """Ask whether it may run; without an answer it stays off."""
    manifest = plugin_choices.need_plugin(name)
    if manifest.kind == "exclusive" and not given:
        chosen = Path(manifest.path or "").name
        print(f"It is chosen by its own setting. For a memory provider: hermes memory setup {chosen}")
        return 0
    if agree(f"Enable {manifest.id} now?", given):
        return plugin_choices.enable(manifest)
    if plugin_models.is_named(manifest, plugin_models.read_wanted()):  # an old setting is no yes to what came today
        plugin_choices.write_names("disabled", [*plugin_choices.read_names("disabled"), manifest.id])
    print(f"It is off. To let it run: hermes plugins enable {manifest.id}")
    return 0
