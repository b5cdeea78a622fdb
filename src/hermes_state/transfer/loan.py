"""A gateway lends its store: it ends all its work, keeps the home, and goes on when it has the store back.

Both know a file in the home. Whoever borrows locks it for as long as they need it, so that a borrower who dies gives
back at once; the gateway writes into it that the store is closed.
"""

import fcntl
import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from hermes_base.errors import HomeBusy, StoreFailure
from hermes_constants.ordinary_files import open_private
from hermes_state import home_lock

FILE = "run/store-loan"
_LENT = b"lent"
_LOOK_SECONDS = 0.02
PATIENCE = 30.0  # longer than a gateway takes to end its work


@contextmanager
def borrow(home: Path, ask: Callable[[], object]) -> Iterator[None]:
    """Have the store of a home to oneself while a gateway holds the home; `ask` tells the gateway so."""
    path = home / FILE
    path.parent.mkdir(mode=0o700, exist_ok=True)
    with open(path, "w+b", buffering=0, opener=open_private) as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise StoreFailure("Somebody else moves this store now.", kept="Nothing was changed.") from error
        file.truncate(0)
        try:
            ask()
            _wait_for_loan(home, file.fileno())
            yield
        finally:
            path.unlink(missing_ok=True)


def _wait_for_loan(home: Path, descriptor: int) -> None:
    end = time.monotonic() + PATIENCE
    while os.pread(descriptor, len(_LENT), 0) != _LENT:
        if home_lock.holder(home) is None:
            raise StoreFailure("The gateway ended meanwhile.", kept="Nothing was changed.", fix="Try again.")
        if time.monotonic() > end:
            raise HomeBusy("The gateway does not give its store up.", pid=0, since=0.0, fix="Stop it, then try again.")
        time.sleep(_LOOK_SECONDS)


def lend(home: Path) -> None:
    """Say that the store is closed, and wait until whoever wanted it has ended. The home is kept."""
    with suppress(FileNotFoundError), open(home / FILE, "r+b", buffering=0) as file:
        file.write(_LENT)
        while not _is_free(file.fileno()):
            home_lock.tend(home)
            time.sleep(_LOOK_SECONDS)


def _is_free(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
