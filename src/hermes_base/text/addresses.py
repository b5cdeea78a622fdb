"""Addresses that may hold a login or a key: how they are shown, and which of their parts are secrets."""

import functools
import ipaddress
import re
from collections.abc import Iterable, Iterator
from typing import Any
from urllib.parse import unquote, unquote_plus, urlsplit

from hermes_base.errors import ConfigProblem

_HIDDEN = "…"
_PARTS = re.compile(
    r"(?P<scheme>[A-Za-z][A-Za-z0-9+.-]*://)?((?P<login>[^/?#]*)@)?(?P<place>[^?#]*)(?P<query>\?[^#]*)?(?P<rest>.*)",
    re.DOTALL,
)
#: Names of parameters whose value is a secret.
_SECRET_NAME = re.compile(r"(key|token|secret|pass(word|wd)?|pwd|sig|signature|auth|credentials?)$", re.IGNORECASE)


@functools.lru_cache(maxsize=256)  # a turn names its addresses several times
def describe_address(address: str) -> str:
    """The address as it may be shown and kept: without login, and without the values of secret parameters."""
    parts = _match(address)
    place = parts["place"]
    if "@" in place:  # a login with a slash in it, which nobody can connect with
        place = _HIDDEN + place[place.rindex("@") :]
    query = (parts["query"] or "").split("&")
    for number, (name, _, value) in enumerate(part.partition("=") for part in query):
        if value and _SECRET_NAME.search(name):
            query[number] = f"{name}={_HIDDEN}"
    return f"{parts['scheme'] or ''}{place}{'&'.join(query)}{parts['rest']}"


def check_address(address: str, *, kept: str = "", place: str = "") -> None:
    """ConfigProblem when nothing can be called there: no scheme, or no host. `place` is the setting that it stands in;
    without it, it is a model server's."""
    try:
        parts = urlsplit(address)
        if parts.scheme in ("http", "https") and parts.hostname:
            return
    except ValueError:  # such as half of an IPv6 address
        pass
    shown = describe_address(address)
    example = "https://example.org" if place else "http://127.0.0.1:8000/v1"
    what = f"{place} is '{shown}', which is no address." if place else f"'{shown}' is no address of a model server."
    raise ConfigProblem(
        what if shown else "The server's address is missing.",
        kept=kept,
        fix=f"It begins with http:// or https://, for example {example}",
    )


def is_local(address: str) -> bool:
    """Whether it leads to this machine."""
    host = urlsplit(address).hostname or ""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost" or host.endswith(".localhost")


def find_address_secrets(address: str) -> Iterator[str]:
    """The secrets in an address, each as it is written there and as it is meant."""
    parts = _match(address)
    login = parts["login"] or ""
    user, _, password = login.partition(":")
    password = "" if password == user else password  # such as postgres:postgres: alone it is a word
    found = [password, login]  # a short password is found beside its user
    for part in (parts["query"] or "")[1:].split("&"):
        name, _, value = part.partition("=")
        if _SECRET_NAME.search(name):
            found += [value, unquote_plus(value)]
    found += [unquote(text) for text in (password, login)]
    yield from dict.fromkeys(text for text in found if text.strip(":"))


def find_in_addresses(values: Iterable[tuple[str, Any]], place: str = "") -> dict[str, str]:
    """The same for named values, as far as they are addresses; a proxy may be named without a scheme."""
    return {
        f"{name}{place}, part {number}": secret
        for name, value in values
        if isinstance(value, str) and ("://" in value or name.lower().endswith("_proxy"))
        for number, secret in enumerate(find_address_secrets(value), 1)
    }


def _match(address: str) -> re.Match[str]:
    parts = _PARTS.fullmatch(address)
    assert parts is not None  # every part may be missing, and the rest is anything
    return parts
