"""The socket of a home: only its owner can open it, and a dead owner's is replaced."""

import os
import socket
import stat
import struct
import sys
from pathlib import Path

from hermes_base.errors import ConfigProblem
from hermes_base.local_wire import SOCKET_FILE

_CREDENTIALS = struct.Struct("3i")  # pid, uid, gid


def listen(path: Path) -> socket.socket:
    """A listening socket at `path`, in the place of whatever socket was there; the caller holds the home's lock."""
    _check_place(path)
    making = path.with_name(f".{path.name[:20]}-{os.getpid()}")
    making.unlink(missing_ok=True)
    sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        sock.bind(str(making))
        making.chmod(0o600)  # before anybody can connect: it does not listen yet
        sock.listen(128)
        making.replace(path)  # clients find the old one or the new one, never none
    except OSError as error:
        sock.close()
        making.unlink(missing_ok=True)
        raise ConfigProblem(
            f"The socket {path} cannot be opened: {error.strerror or error}.",
            fix="Give this user the right to write its folder, or set HERMES_HOME to another one.",
        ) from error
    sock.setblocking(False)
    return sock


def _check_place(path: Path) -> None:
    """Make the folder; refuse one that somebody else has made, or a file that is no socket."""
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    folder = path.parent.lstat()
    shared = path.name != SOCKET_FILE  # it lies where everybody can make folders
    if shared and (folder.st_uid != os.getuid() or not stat.S_ISDIR(folder.st_mode) or folder.st_mode & 0o077):
        raise ConfigProblem(
            f"The folder {path.parent} is not this user's alone, so no socket is opened in it.",
            fix="Remove it, or set HERMES_HOME to a folder with a shorter name.",
        )
    if os.path.lexists(path) and not stat.S_ISSOCK(path.lstat().st_mode):
        raise ConfigProblem(f"{path} is in the way: it is no socket.", fix="Move it away.")


def identify(path: Path) -> tuple[int, int] | None:
    """Which file is at `path`; None: there is none."""
    try:
        found = path.lstat()
    except FileNotFoundError:
        return None
    return found.st_dev, found.st_ino


def peer_uid(sock: socket.socket) -> int:
    """Who is at the other end."""
    if sys.platform != "linux":
        return os.getuid()  # the mode of the file is what keeps others out there
    pid_uid_gid = sock.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
    uid: int = _CREDENTIALS.unpack(pid_uid_gid)[1]
    return uid
