"""Who may look at the page: the token of the home, and the cookie that stands for it.

Nothing here is heavy to load: `hermes web` uses it, too.
"""

import hashlib
import hmac
import logging
import os
import re
import secrets
import sys
from collections.abc import Callable
from pathlib import Path

from hermes_base.errors import ConfigProblem
from hermes_constants import WEB_TOKEN_FILE
from hermes_constants.ordinary_files import open_private, read_file

log = logging.getLogger(__name__)

_TOKEN = re.compile(r"[!-~]+")
_COOKIE = re.compile(r"[A-Za-z0-9_-]{43}")
_MOST_BYTES = 10_000
COOKIE_SECONDS = 30 * 24 * 3600


# --- the token


def read_token(home: Path) -> str:
    """The token of the home, made at the first call; of several who make it at once, one does."""
    return _read(home) or _put(home, os.link) or _read(home) or make_token(home)


def make_token(home: Path) -> str:
    """A new token; the old one and every cookie that was made with it are void."""
    return _put(home, os.replace)


def word_address(address: str) -> str:
    """How an address with a token is printed: whole to a person's terminal, and without the token to what keeps it."""
    plain, token, _ = address.partition("?token=")
    return f"{plain} (`hermes web` prints it with its token)" if token and not sys.stdout.isatty() else address


def _read(home: Path) -> str:
    """Empty: there is none, or (logged) what stands there is damaged, and a new one is made."""
    path = home / WEB_TOKEN_FILE
    try:
        token = read_file(path, _MOST_BYTES).decode("latin-1").strip()
    except FileNotFoundError:
        return ""
    except OSError as error:
        fix = "Make it a file that you may read, or move it away: then a new token is made."
        raise ConfigProblem(f"{path} cannot be read: {error.strerror}.", fix=fix) from error
    if not token or _TOKEN.fullmatch(token):
        return token
    log.warning("%s is damaged: a new token is made, and whoever was logged in logs in again.", path)
    return make_token(home)


def _put(home: Path, place: Callable[[Path, Path], None]) -> str:
    """Write a token beside the file and put it in its place; empty: another one stands there."""
    token = secrets.token_urlsafe(24)
    home.mkdir(parents=True, exist_ok=True)
    draft = home / f"{WEB_TOKEN_FILE}.{os.getpid()}.{secrets.token_hex(4)}"
    with open(draft, "x", opener=open_private) as file:
        file.write(token + "\n")
    try:
        place(draft, home / WEB_TOKEN_FILE)
    except FileExistsError:
        return ""
    finally:
        draft.unlink(missing_ok=True)
    return token


class TokenFile:
    """The token as it stands in the file now; the file is read again only when it is another one."""

    def __init__(self, home: Path) -> None:
        self._home = home
        self._seen: tuple[int, int] = (0, 0)
        self._token = ""

    def read(self) -> str:
        seen = self._look()
        if not self._token or seen != self._seen:
            try:
                self._token = read_token(self._home)
            except ConfigProblem as problem:
                if not self._token:
                    raise
                log.warning("The token from before still holds: %s", problem)
            self._seen = self._look()
        return self._token

    def _look(self) -> tuple[int, int]:
        try:
            stat = (self._home / WEB_TOKEN_FILE).stat()
        except OSError:
            return (0, 0)
        return (stat.st_ino, stat.st_mtime_ns)


# --- the cookie


def are_equal(given: str, expected: str) -> bool:
    """Compare without telling by the time it takes how much was right, or how long the right one is."""
    return hmac.compare_digest(_digest(given), _digest(expected)) and bool(expected)


def make_cookie() -> str:
    """A value that nobody can guess. It tells nothing: what it opens stands in the store, under its digest."""
    return secrets.token_urlsafe(32)


def digest_cookie(value: str) -> str:
    """What is kept of a cookie: a plain hash, since it is random and long. Empty: it is none of ours."""
    return hashlib.sha256(value.encode()).hexdigest() if _COOKIE.fullmatch(value) else ""


def digest_token(token: str) -> str:
    """By which one knows whether a home has the same token still."""
    return _digest(f"token\0{token}").hex()


def bind_cookie(value: str, password: str) -> str:
    """Proof that a cookie was made while this was the password; whoever has no cookie learns nothing from it."""
    key = value.encode("utf-8", "surrogateescape")
    return hmac.new(key, f"password\0{password}".encode("utf-8", "surrogateescape"), hashlib.sha256).hexdigest()


def name_cookie(home: Path, shared: str = "") -> str:
    """Each home has its own, since a browser gives cookies to all ports of a machine; gateways that share a store have
    one, by the name of the store."""
    return f"hermes-{hashlib.sha256((shared or str(home.resolve())).encode()).hexdigest()[:8]}"


def _digest(text: str) -> bytes:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest()
