"""The address of a database that holds the store: `postgresql://USER@HOST:PORT/NAME`, its password kept apart."""

import difflib
import re
from dataclasses import dataclass, replace
from urllib.parse import quote, unquote

from hermes_base.errors import ConfigProblem
from hermes_base.text.addresses import describe_address

#: A password may be typed as it is: it ends at the last `@` behind which a host can stand.
_ADDRESS = re.compile(
    r"(?P<scheme>[A-Za-z][A-Za-z0-9+.-]*)://(?:(?P<user>[^:@/?#]*)(?::(?P<password>.*))?@)?"
    r"(?P<hosts>[^/?#@]*)(?:/(?P<name>[^?#@]*))?(?:\?(?P<query>[^#@]*))?"
)
_HOST = re.compile(r"(?:\[[0-9A-Fa-f:.]+\]|[^:\[\]]*)(?::(?P<port>[0-9]{1,5})?)?")
_SCHEMES = ("postgresql", "postgres")
_LIKE_OURS = (*_SCHEMES, "postgressql", "psql", "pgsql", "pg")
_EXAMPLE = "For example: postgresql://hermes@db.example.org/hermes"
_SIGNS = "In a name or password, @ : / ? # and % are written %40 %3A %2F %3F %23 and %25."


@dataclass(frozen=True, slots=True)
class StoreAddress:
    """The parts as they stand in the address; `password` as it is meant."""

    scheme: str
    user: str
    password: str
    hosts: str
    name: str
    query: tuple[str, ...]

    def write(self) -> str:
        """With both strokes, also where no host is named: `postgresql:///NAME` is the machine's own."""
        password = f":{quote(self.password, safe='')}" if self.password else ""
        login = f"{self.user}{password}@" if self.user or password else ""
        query = f"?{'&'.join(self.query)}" if self.query else ""
        return f"{self.scheme}://{login}{self.hosts}/{self.name}{query}"


def read_store_address(address: str) -> StoreAddress:
    """ConfigProblem when no database can be meant by it. A slip is never taken for "no database" (I6), and never shown:
    it may be a part of the password."""
    found = _ADDRESS.fullmatch(address)
    scheme = address.partition("://")[0] if "://" in address else ""
    if scheme not in _SCHEMES:
        raise _refuse_scheme(scheme)
    beside = address.replace((found and found["password"]) or "\0", "")
    if found is None or not address.isprintable() or any(sign.isspace() for sign in beside):
        raise _refuse("store.url cannot be read as an address.", f"{_SIGNS} {_EXAMPLE}")
    query = tuple(filter(None, (found["query"] or "").split("&")))
    named = {part.partition("=")[0]: unquote(part.partition("=")[2]) for part in query}
    for host in found["hosts"].split(","):
        told = _HOST.fullmatch(host)
        if told is None or not 0 < int(told["port"] or 1) < 1 << 16:
            raise _refuse("The port in store.url is no number from 1 to 65535.", f"{_SIGNS} {_EXAMPLE}")
    if not (found["name"] or named.get("dbname")) or "/" in (found["name"] or ""):
        raise _refuse("store.url names no database behind its host.", f"{_EXAMPLE} {_SIGNS}")
    kept = tuple(part for part in query if part.partition("=")[0] != "password")
    password = unquote(found["password"] or "") or named.get("password", "")
    return StoreAddress(scheme, found["user"] or "", password, found["hosts"], found["name"] or "", kept)


def take_password(address: str) -> tuple[str, str]:
    """The address without its password, and the password; it may stand before the host or among the parameters."""
    read = read_store_address(address)
    return replace(read, password="").write(), read.password


def put_password(address: str, password: str) -> str:
    """The address with this password, unless it brings one."""
    read = read_store_address(address)
    return replace(read, password=read.password or password).write()


def describe_store_address(address: str) -> str:
    """As it is shown: without a login, even where it cannot be read."""
    try:
        read = read_store_address(address)
    except ConfigProblem:
        return "…"
    return describe_address(replace(read, user="", password="").write())


def _refuse_scheme(scheme: str) -> ConfigProblem:
    if not scheme:
        return _refuse("store.url does not begin with postgresql://.", _EXAMPLE)
    if difflib.get_close_matches(scheme.lower(), _LIKE_OURS, n=1, cutoff=0.7):
        return _refuse(f"store.url begins with {scheme!a}, which is misspelt.", "Write postgresql:// instead.")
    fix = f"It names a PostgreSQL database; a store in a file needs no store.url. {_EXAMPLE}"
    return _refuse(f"store.url begins with {scheme!a}, which no store can be kept in.", fix)


def _refuse(what: str, fix: str) -> ConfigProblem:
    return ConfigProblem(what, kept="Nothing was changed.", fix=fix)
