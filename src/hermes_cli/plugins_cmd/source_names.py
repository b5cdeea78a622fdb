"""What a person may call the source of a plugin, and what is meant by it. Nothing is fetched here."""

import os
import re
from dataclasses import dataclass, replace
from pathlib import Path
from urllib.parse import unquote, urlsplit

from hermes_base.errors import ConfigProblem
from hermes_constants.ordinary_files import expand_home

GIT, ARCHIVE, FOLDER, PACKAGE = "git", "archive", "folder", "package"
HUB = "https://github.com"
ARCHIVE_ENDINGS = (".tar.gz", ".tgz", ".tar", ".zip")
_UNCHANGED = "Nothing was changed."
_FORMS = "It is owner/repo, an address (https://, ssh://, git@…), a folder, an archive (.tar.gz, .zip) or pip:NAME."
_SCHEMES = frozenset({"https", "http", "ssh", "git+https", "git+ssh", "file"})
_OWNER_REPO = re.compile(r"([A-Za-z0-9][\w.-]*)/([A-Za-z0-9_][\w.-]*)((?:/[^/]+)*)/?", re.ASCII)
_SCP = re.compile(r"[\w.-]+@[\w.-]+:(?!//)[^\s]+", re.ASCII)
#: The page of a folder of a repository, as browsers show it.
_BROWSED = re.compile(r"(?P<repo>.+?)(?:/-)?/(?:tree|src/branch)/(?P<branch>[^/]+)(?P<sub>/.*)?")
_DOT_GIT = re.compile(r"(?P<repo>.+?\.git)/(?P<sub>.+)")
_PACKAGE = re.compile(
    r"[A-Za-z0-9](?:[\w.-]*[A-Za-z0-9])?(?:\[[\w,. -]+\])?(?:\s*[=<>!~]=?=?\s*[\w.*+!, <>=~-]+)?", re.ASCII
)


@dataclass(frozen=True, slots=True)
class PluginSource:
    """Where a plugin comes from."""

    kind: str
    address: str  # of a repository or an archive; a path; a requirement
    branch: str = ""
    sub: str = ""  # the folder inside of it

    def __str__(self) -> str:
        parts = [self.address, f"branch {self.branch}" if self.branch else "", f"folder {self.sub}" if self.sub else ""]
        return ", ".join(filter(None, parts))


def read_source(text: str) -> PluginSource:
    """What is meant; ConfigProblem when nothing can be."""
    text = text.strip()
    if not text or text.startswith("-") or any(ord(char) < 32 for char in text):
        raise _refuse(text)
    if text.startswith("pip:"):
        return _read_package(text.removeprefix("pip:").strip())
    if _SCP.fullmatch(text):
        return _read_repository(text)
    scheme = text.partition("://")[0].lower() if "://" in text else ""
    if scheme:
        if scheme not in _SCHEMES:
            raise _refuse(text)
        return _read_address(text.removeprefix("git+"))
    path = expand_home(text)
    if bare := _find_bare(path):
        return bare
    if text.startswith(("/", ".", "~")) or os.path.exists(path):
        return _read_path(path)
    if named := _OWNER_REPO.fullmatch(text):
        owner, repo, sub = named.groups()
        return PluginSource(GIT, f"{HUB}/{owner}/{repo.removesuffix('.git')}", sub=check_sub(sub))
    if "/" in text or not _PACKAGE.fullmatch(text):
        raise _refuse(text)
    return _read_package(text)


def is_bare_name(text: str) -> bool:
    """Whether it could be meant as a package, but does not say so."""
    return not text.strip().startswith("pip:") and read_source(text).kind == PACKAGE


def name_source(source: PluginSource) -> str:
    """What a plugin is called that does not say so itself."""
    last = (source.sub or urlsplit(source.address).path or source.address).rstrip("/").rpartition("/")[2]
    last = unquote(last.rpartition(":")[2])
    for ending in (".git", *ARCHIVE_ENDINGS):
        last = last.removesuffix(ending)
    return last


def is_unprotected(source: PluginSource) -> bool:
    """Whether somebody on the way could put other code in its place."""
    return source.address.lower().startswith("http://")


def _read_path(path: str) -> PluginSource:
    if os.path.isdir(path):
        return PluginSource(FOLDER, os.path.realpath(path))
    if os.path.isfile(path) and (place := os.path.realpath(path)).lower().endswith(ARCHIVE_ENDINGS):
        return PluginSource(ARCHIVE, place)
    what = f"{path} is neither a folder nor an archive." if os.path.exists(path) else f"{path} does not exist."
    raise ConfigProblem(what, kept=_UNCHANGED, fix=_FORMS)


def _find_bare(path: str) -> PluginSource | None:
    """A repository without a working folder, as servers keep them: there is nothing to copy, so it is cloned. A folder
    of it may be named behind it (`it.git/sub`, `it.git#sub`)."""
    named, _, fragment = path.partition("#")
    for place in (Path(named), *Path(named).parents):
        if _is_bare(place):
            inside = "" if place == Path(named) else Path(named).relative_to(place).as_posix()
            return PluginSource(GIT, place.resolve().as_uri(), sub=check_sub(fragment or inside))
        if os.path.exists(place):
            return None
    return None


def _is_bare(place: Path) -> bool:
    return os.path.isfile(place / "HEAD") and os.path.isdir(place / "objects") and os.path.isdir(place / "refs")


def _read_package(text: str) -> PluginSource:
    if not _PACKAGE.fullmatch(text):
        raise ConfigProblem(f"{text!r} is no name of a package.", kept=_UNCHANGED, fix="For example: pip:NAME==1.2")
    return PluginSource(PACKAGE, text)


def _read_address(text: str) -> PluginSource:
    try:
        parts = urlsplit(text)
        password = parts.password or (parts.username if parts.scheme in ("http", "https") else None)
    except ValueError:
        raise _refuse(text) from None
    if password:
        fix = "Leave it out, and let git ask its credential store, or use ssh."
        raise ConfigProblem("The address holds a password or a token, which would be kept.", kept=_UNCHANGED, fix=fix)
    address, _, fragment = text.partition("#")
    address = address.partition("?")[0]
    if address.lower().endswith(ARCHIVE_ENDINGS):
        return PluginSource(ARCHIVE, address, sub=check_sub(fragment))
    found = _read_repository(address)
    return replace(found, sub=check_sub(fragment)) if fragment else found


def _read_repository(text: str) -> PluginSource:
    address, _, fragment = text.partition("#")
    address = address.rstrip("/")
    if browsed := _BROWSED.fullmatch(address):
        sub = check_sub(fragment or unquote(browsed["sub"] or ""))
        return PluginSource(GIT, browsed["repo"], unquote(browsed["branch"]), sub)
    if inside := _DOT_GIT.fullmatch(address):
        return PluginSource(GIT, inside["repo"], sub=check_sub(fragment or unquote(inside["sub"])))
    return PluginSource(GIT, address, sub=check_sub(fragment))


def check_sub(text: str) -> str:
    """A folder inside of a repository; ConfigProblem when it would lead out of it."""
    names = [name for name in text.split("/") if name not in ("", ".")]
    if ".." in names or ".git" in names or "\\" in text:
        raise ConfigProblem(f"The folder {text!r} is not inside of the repository.", kept=_UNCHANGED)
    return "/".join(names)


def _refuse(text: str) -> ConfigProblem:
    return ConfigProblem(f"{text!r} names no source of a plugin.", kept=_UNCHANGED, fix=_FORMS)
