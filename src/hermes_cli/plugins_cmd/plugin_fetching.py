"""Brings the code of a plugin into a folder of ours: from a repository, an archive or a folder. Runs none of it."""

import os
import shutil
import signal
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from urllib.parse import unquote, urlsplit

import httpx2

from hermes_base.errors import ConfigProblem, HermesError
from hermes_cli.config.lent_env import exported_environment
from hermes_cli.plugins.plugin_seals import MOST_BYTES, MOST_FILES
from hermes_cli.plugins.plugin_sources import find_manifest_file, list_folders
from hermes_cli.plugins_cmd import plugin_archives
from hermes_cli.plugins_cmd.source_names import ARCHIVE, FOLDER, GIT, PluginSource, check_sub
from hermes_constants.home_names import find_database

SECONDS = 60
_KEPT = "Nothing was installed."
_MOST_REDIRECTS = 5
_LAST_CHARS = 600  # of what git says
#: What is no part of a plugin: never copied. Nor are databases: they are what somebody wrote by using it.
LEFT_OUT = frozenset({".git", "__pycache__", ".venv", ".pytest_cache", ".mypy_cache", ".ruff_cache"})
#: Where hosts offer a repository as an archive; {ref} is a branch or HEAD.
_ARCHIVES: Mapping[str, str] = MappingProxyType(
    {
        "github.com": "https://codeload.github.com{path}/tar.gz/{ref}",
        "gitlab.com": "https://gitlab.com{path}/-/archive/{ref}/it.tar.gz",
        "codeberg.org": "https://codeberg.org{path}/archive/{ref}.tar.gz",
    }
)


@dataclass(frozen=True, slots=True)
class FetchedPlugin:
    """A plugin's folder as it was fetched, below a folder that is thrown away."""

    folder: Path
    commit: str = ""
    left_out: tuple[str, ...] = ()  # databases


def fetch(source: PluginSource, scratch: Path) -> FetchedPlugin:
    """Fetch into `scratch`, which is empty; HermesError says why not."""
    tree = scratch / "tree"
    tree.mkdir()
    commit = ""
    if source.kind == FOLDER:
        copy_folder(Path(source.address), tree)
    elif source.kind == ARCHIVE:
        commit = plugin_archives.unpack(_find_archive(source.address, scratch), tree)
    elif source.kind == GIT:
        commit = _fetch_repository(source, tree, scratch)
    folder = find_plugin_folder(tree, source.sub).resolve()
    for path in folder.rglob("*"):  # of the plugin alone, which is what is moved
        if path.is_symlink():
            check_link(path, folder)
    return FetchedPlugin(folder, commit, tuple(_drop_rest(folder)))


def _drop_rest(folder: Path) -> Iterator[str]:
    """Take away what is no part of the plugin; the databases by name."""
    for parent, names, files in os.walk(folder):
        for name in LEFT_OUT & set(names):
            shutil.rmtree(Path(parent, name), ignore_errors=True)
        names[:] = sorted(set(names) - LEFT_OUT)
        for name in filter(find_database, sorted(files)):
            path = Path(parent, name)
            path.unlink()
            yield str(path.relative_to(folder))


# --- where the plugin is in what was fetched


def find_plugin_folder(tree: Path, sub: str) -> Path:
    """The one folder with a manifest; what else there is must be named."""
    if sub:
        folder = tree / check_sub(sub)
        if not _is_inside(folder, tree):  # archives of repositories have one folder around all
            folder = next((child / sub for child in list_folders(tree) if _is_inside(child / sub, tree)), folder)
        if not _is_inside(folder, tree):
            raise ConfigProblem(f"There is no folder {sub} in it.", kept=_KEPT)
        found = [folder] if find_manifest_file(folder) else []
    else:
        found = _list_plugins(tree)
    if len(found) == 1:
        return found[0]
    if found:
        names = ", ".join(sorted(str(folder.relative_to(tree)) for folder in found))
        raise ConfigProblem(f"It holds several plugins: {names}.", kept=_KEPT, fix="Name one: SOURCE#FOLDER")
    fix = "A Python package is installed as one: hermes plugins install pip:NAME (in a folder: pip install FOLDER)"
    raise ConfigProblem("It is no plugin: there is no plugin.yaml in it.", kept=_KEPT, fix=fix)


def _is_inside(folder: Path, tree: Path) -> bool:
    return folder.is_dir() and folder.resolve().is_relative_to(tree.resolve())


def _list_plugins(folder: Path, depth: int = 3) -> list[Path]:
    if find_manifest_file(folder) is not None:
        return [folder]
    inner = [child for child in list_folders(folder) if not child.is_symlink() and not child.name.startswith(".")]
    return [found for child in inner for found in _list_plugins(child, depth - 1)] if depth else []


# --- folders


def copy_folder(source: Path, target: Path) -> None:
    """Copy what can belong to a plugin: files and folders. A link that leads out of it is refused."""
    left_bytes, left_files = MOST_BYTES, MOST_FILES
    root = source.resolve()
    try:
        for parent, names, files in os.walk(root, onerror=_raise):
            names[:] = sorted(set(names) - LEFT_OUT)
            place = target / Path(parent).relative_to(root)
            place.mkdir(exist_ok=True)
            links = [name for name in names if Path(parent, name).is_symlink()]
            names[:] = [name for name in names if name not in links]
            for name in (*sorted(files), *links):
                path = Path(parent, name)
                if path.is_symlink():
                    check_link(path, root)
                    (place / name).symlink_to(os.readlink(path))
                    continue
                if not path.is_file():
                    raise ConfigProblem(f"{path} is no file: a plugin holds files and folders.", kept=_KEPT)
                left_bytes, left_files = left_bytes - path.stat().st_size, left_files - 1
                if left_bytes < 0 or left_files < 0:
                    raise ConfigProblem(f"{source} is too large for a plugin.", kept=_KEPT)
                shutil.copyfile(path, place / name)
                (place / name).chmod(0o755 if path.stat().st_mode & 0o100 else 0o644)
    except OSError as problem:
        what = f"{problem.filename or source} cannot be copied: {problem.strerror}."
        raise ConfigProblem(what, kept=_KEPT) from problem


def check_link(path: Path, root: Path) -> None:
    """A link in a plugin leads to something of the plugin, wherever the plugin is moved to."""
    if os.path.isabs(os.readlink(path)) or not path.resolve().is_relative_to(root):
        raise ConfigProblem(f"{path.relative_to(root)} is a link that leads out of the plugin.", kept=_KEPT)


def _raise(problem: OSError) -> None:
    raise problem


# --- archives


def _find_archive(address: str, scratch: Path) -> Path:
    parts = urlsplit(address)
    if parts.scheme == "file":
        return Path(unquote(parts.path))
    if parts.scheme in ("http", "https"):
        return download(address, scratch / Path(parts.path).name)
    return Path(address)


def download(address: str, target: Path) -> Path:
    """Load a file from the net; from https it is never led to something less safe."""
    safe = address.startswith("https://")
    try:
        with httpx2.Client(timeout=SECONDS, follow_redirects=False) as client:
            for _ in range(_MOST_REDIRECTS):
                with client.stream("GET", address) as answer:
                    if answer.is_redirect:
                        address = str(answer.next_request.url) if answer.next_request else ""
                        if not address.startswith("https://" if safe else ("http://", "https://")):
                            raise HermesError(f"The download leads to {address}, which is not safe.", kept=_KEPT)
                        continue
                    answer.raise_for_status()
                    _save(answer, target)
                    return target
    except (httpx2.HTTPError, OSError) as problem:
        raise HermesError(f"{address} cannot be loaded: {problem or type(problem).__name__}.", kept=_KEPT) from problem
    raise HermesError(f"{address} leads from one address to the next without end.", kept=_KEPT)


def _save(answer: httpx2.Response, target: Path) -> None:
    left = MOST_BYTES
    with target.open("wb") as file:
        for data in answer.iter_bytes():
            left -= len(data)
            if left < 0:
                raise HermesError("The archive is too large for a plugin.", kept=_KEPT)
            file.write(data)


# --- repositories


def _fetch_repository(source: PluginSource, tree: Path, scratch: Path) -> str:
    if shutil.which("git") is None:
        address = find_archive_address(source)
        if not address:
            fix = "Install git, or download it and install the folder."
            raise HermesError(
                "git is not installed, and this host offers no archive that is known.", kept=_KEPT, fix=fix
            )
        return plugin_archives.unpack(download(address, scratch / "it.tar.gz"), tree)
    clone = scratch / "clone"
    branch = ["--branch", source.branch] if source.branch else []
    run_git(
        ["clone", "--quiet", "--depth", "1", "--no-tags", "--single-branch", *branch, "--", source.address, str(clone)]
    )
    commit = run_git(["-C", str(clone), "rev-parse", "HEAD"]).strip()
    copy_folder(clone, tree)
    return commit


def find_archive_address(source: PluginSource) -> str:
    """Where the host of a repository offers it as an archive; empty: it is not known to."""
    parts = urlsplit(source.address)
    form = _ARCHIVES.get(parts.hostname or "") if parts.scheme == "https" else None
    path = parts.path.rstrip("/").removesuffix(".git")
    return form.format(path=path, ref=source.branch or "HEAD") if form else ""


def run_git(words: Sequence[str]) -> str:
    """What git prints. It asks nobody, runs no hooks, and goes nowhere but where it was sent."""
    settings = ["-c", "core.hooksPath=/dev/null", "-c", "protocol.ext.allow=never", "-c", "submodule.recurse=false"]
    more = {"GIT_TERMINAL_PROMPT": "0", "GIT_LFS_SKIP_SMUDGE": "1", "GIT_ALLOW_PROTOCOL": "https:http:ssh:file"}
    shared = exported_environment()
    kept = {name: value for name, value in shared.items() if not name.startswith(("GIT_DIR", "GIT_WORK_TREE"))}
    with subprocess.Popen(
        ["git", *settings, *words],
        env={**kept, **more},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        errors="replace",
        start_new_session=True,  # its helpers end with it
    ) as running:
        try:
            out, said = running.communicate(timeout=SECONDS)
        except BaseException as problem:
            os.killpg(running.pid, signal.SIGKILL)
            if isinstance(problem, subprocess.TimeoutExpired):
                raise HermesError(f"git was not done after {SECONDS} seconds.", kept=_KEPT) from problem
            raise
    if running.returncode:
        raise HermesError(f"git could not fetch it: {said.strip()[-_LAST_CHARS:].rstrip('.')}.", kept=_KEPT)
    return out
