"""Locks of the whole machine: one process at a time speaks for a bot account, whichever home it has."""

import contextlib
import fcntl
import hashlib
import json
import os
import re
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from hermes_base.errors import ConfigProblem

FOLDER = "HERMES_GATEWAY_LOCK_DIR"
_held: dict[Path, int] = {}  # descriptors, by path: a lock ends with its process, however that ends


def acquire_scoped_lock(
    scope: str, identity: str, metadata: Mapping[str, Any] | None = None
) -> tuple[bool, dict[str, Any] | None]:
    """Whether this process speaks for the account now, and what its holder wrote down. Twice is once."""
    path = _find_path(scope, identity)
    if path in _held:
        return True, _read_record(_held[path])
    opened = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    try:
        fcntl.flock(opened, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        record = _read_record(opened)
        os.close(opened)
        return False, record or {"pid": 0}
    record = {"pid": os.getpid(), "scope": scope, "started": time.time(), "metadata": dict(metadata or {})}
    os.ftruncate(opened, 0)
    os.pwrite(opened, json.dumps(record, default=str).encode(), 0)
    _held[path] = opened
    return True, record


def release_scoped_lock(scope: str, identity: str) -> None:
    """Let another process have it; nothing happens if it is not ours."""
    opened = _held.pop(_find_path(scope, identity), None)
    if opened is not None:
        os.ftruncate(opened, 0)
        os.close(opened)


def _read_record(opened: int) -> dict[str, Any] | None:
    with contextlib.suppress(OSError, ValueError):
        kept = json.loads(os.pread(opened, 65_536, 0))
        return kept if isinstance(kept, dict) else None
    return None


def _find_path(scope: str, identity: str) -> Path:
    """The name of the file does not tell the identity, which may be a token."""
    state = os.environ.get("XDG_STATE_HOME", "").strip()
    named = os.environ.get(FOLDER, "").strip()
    folder = Path(named) if named else Path(state or Path.home() / ".local" / "state") / "hermes" / "gateway-locks"
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as problem:
        fix = f"Set {FOLDER} to a folder that can be written."
        raise ConfigProblem(f"{folder} cannot be made: {problem.strerror}.", fix=fix) from problem
    digest = hashlib.sha256(str(identity).encode("utf-8", "replace")).hexdigest()[:24]
    return folder / f"{re.sub(r'[^A-Za-z0-9_.-]', '_', scope)}-{digest}.lock"
