"""Where commands run: `local`, with the person's own rights, or `bubblewrap`, behind walls.

Behind the walls only the working folder is writable, and other people's files are not there.
"""

import logging
import os
import shutil
import subprocess
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Protocol

from hermes_base.errors import ToolFailure
from hermes_base.tool_context import ToolContext

log = logging.getLogger(__name__)

PROBE_SECONDS = 10.0
#: Folders that hold what is not for a command: other people's files, other disks, sockets of services.
HIDDEN = ("/home", "/root", "/mnt", "/media", "/run")
#: Keys inside a home, for the case that the home itself is the working folder.
HIDDEN_IN_HOME = (".ssh", ".gnupg", ".aws", ".kube", ".docker")
#: The task has its own.
PRIVATE = ("/tmp", "/var/tmp")
#: Names are looked up through a file that some systems keep here.
SHOWN = ("/run/systemd/resolve",)


@dataclass(frozen=True, slots=True)
class Place:
    """What a backend must know about the task: its root folder, where it is now, its own /tmp."""

    root: str
    folder: str
    tmp: str
    network: bool = True
    secret_home: str = ""  # where Hermes keeps its own keys
    readable: tuple[str, ...] = ()  # folders below it that may be looked at all the same
    pty: bool = False


class Backend(Protocol):
    """Turns a bash script into the program to start."""

    name: str

    def argv(self, script: str, place: Place) -> list[str]: ...

    def find_folder(self, folder: str, place: Place) -> str:
        """Where a folder that the shell names lies on this machine."""
        ...


class LocalBackend:
    """No walls: the command may do what the person may do."""

    name = "local"

    def argv(self, script: str, place: Place) -> list[str]:
        return ["bash", "-c", script]

    def find_folder(self, folder: str, place: Place) -> str:
        return folder


class BubblewrapBackend:
    """The system read-only, homes hidden, a /tmp and process list of its own, no privileges even for root."""

    name = "bubblewrap"

    def argv(self, script: str, place: Place) -> list[str]:
        options = ["--ro-bind", "/", "/", "--dev", "/dev", "--proc", "/proc", *_mounts(place)]
        options += ["--unshare-pid", "--unshare-ipc", "--die-with-parent", "--cap-drop", "ALL"]
        if not place.network:
            options.append("--unshare-net")
        if not place.pty:  # with a pty the session that owns it must stay, or job control would not work
            options.append("--new-session")
        return ["bwrap", *options, "--chdir", place.folder, "--", "bash", "-c", script]

    def find_folder(self, folder: str, place: Place) -> str:
        """Its /tmp is another one than ours."""
        for private in PRIVATE:
            if _is_inside(folder, private) and not (folder == place.root or _is_inside(folder, place.root)):
                return os.path.join(place.tmp, os.path.relpath(folder, private))
        return folder


BACKENDS: Mapping[str, Backend] = {backend.name: backend for backend in (LocalBackend(), BubblewrapBackend())}


def choose_backend(context: ToolContext) -> Backend:
    """The backend that the settings name; "auto" is bubblewrap where it works."""
    return BACKENDS[active_backend(str(context.setting("terminal", "backend", "auto")))]


def active_backend(wanted: str = "auto") -> str:
    """The name of the backend that commands get with this setting."""
    if wanted == "auto":
        return BubblewrapBackend.name if is_bubblewrap_usable() else LocalBackend.name
    if wanted not in BACKENDS:
        raise ToolFailure(
            f"There is no terminal backend called '{wanted}'.",
            fix=f"Set terminal.backend to auto, {' or '.join(BACKENDS)}.",
        )
    if wanted == BubblewrapBackend.name and not is_bubblewrap_usable():
        raise ToolFailure(
            "terminal.backend is bubblewrap, but bwrap does not work on this machine; nothing was run.",
            fix="Install bubblewrap and allow user namespaces, or set terminal.backend to local.",
        )
    return wanted


@lru_cache(maxsize=1)
def is_bubblewrap_usable() -> bool:
    """Installed, and the kernel lets it build its walls; tried once."""
    if shutil.which("bwrap") is None:
        return False
    trial = Place(root="/tmp", folder="/tmp", tmp="/tmp")
    try:
        done = subprocess.run(
            BACKENDS["bubblewrap"].argv("exit 0", trial),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=PROBE_SECONDS,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as problem:
        log.warning("bubblewrap is installed but does not run: %s", problem)
        return False
    if done.returncode != 0:
        reason = done.stderr.decode("utf-8", "replace").strip()
        log.warning("bubblewrap is installed but does not work here: %s", reason)
    return done.returncode == 0


def _mounts(place: Place) -> list[str]:
    """Hide, then show the working folder, then hide what lies inside of it."""
    root = os.path.realpath(place.root)
    before: list[str] = []
    after: list[str] = []
    for target, option in _covers(place):
        (after if _is_inside(target, root) else before).extend(option)
    shown = [word for path in (*SHOWN, *place.readable) for word in ("--ro-bind-try", path, path)]
    return [*before, *shown, "--bind", root, root, *after]


def _covers(place: Place) -> Iterator[tuple[str, list[str]]]:
    home = str(Path.home())
    hidden = {*HIDDEN, home, place.secret_home, *(os.path.join(home, name) for name in HIDDEN_IN_HOME)}
    for path in sorted({os.path.realpath(path) for path in hidden if path and os.path.isdir(path)} - {"/"}):
        yield path, ["--tmpfs", path]
    for path in PRIVATE:
        if os.path.isdir(path) and not os.path.islink(path):
            yield path, ["--bind", place.tmp, path]


def _is_inside(path: str, folder: str) -> bool:
    return path != folder and os.path.commonpath([path, folder]) == folder
