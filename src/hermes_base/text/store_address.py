"""The address of a database that holds the store: `postgresql://USER@HOST:PORT/NAME`, its password kept apart."""

from urllib.parse import SplitResult, parse_qsl, quote, unquote, urlencode, urlsplit

from hermes_base.errors import ConfigProblem

_SCHEMES = ("postgresql", "postgres")
_FIX = "It begins with postgresql://, for example postgresql://hermes@db.example.org/hermes"


def check_store_address(address: str) -> str:
    """The address; ConfigProblem when no database can be meant by it. A slip is never taken for "no database" (I6)."""
    try:
        parts = urlsplit(address)
        named = parts.path.strip("/") and (parts.port or True)
    except ValueError:  # a port that is no number, half of an IPv6 address
        named = False
        parts = urlsplit("")
    if parts.scheme not in _SCHEMES or not named:
        raise ConfigProblem("store.url names no PostgreSQL database.", kept="Nothing was changed.", fix=_FIX)
    return address


def take_password(address: str) -> tuple[str, str]:
    """The address without its password, and the password; it may stand before the host or among the parameters."""
    parts = urlsplit(address)
    login, at, place = parts.netloc.rpartition("@")
    user, _, password = login.partition(":")
    kept = [(name, value) for name, value in parse_qsl(parts.query, keep_blank_values=True) if name != "password"]
    given = dict(parse_qsl(parts.query)).get("password", "")
    return _write(parts, f"{user}{at}{place}", urlencode(kept)), unquote(password) or given


def put_password(address: str, password: str) -> str:
    """The address with this password, unless it brings one; without one it stays as it is."""
    bare, own = take_password(address)
    if own or not password:
        return address
    parts = urlsplit(bare)
    user, at, place = parts.netloc.rpartition("@")
    return _write(parts, f"{user if at else ''}:{quote(password, safe='')}@{place}", parts.query)


def _write(parts: SplitResult, place: str, query: str) -> str:
    """With both strokes, also where no host is named: `postgresql:///NAME` is the machine's own."""
    return f"{parts.scheme}://{place}{parts.path}{'?' if query else ''}{query}"
