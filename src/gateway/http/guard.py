"""Which requests are let in at all, by their host, their origin and their peer (G11): pure decisions."""

import ipaddress
from collections.abc import Mapping
from dataclasses import dataclass
from urllib.parse import urlsplit

LOOPBACK_NAMES = frozenset({"localhost", "localhost.localdomain", "ip6-localhost"})
_FOREIGN_SITES = frozenset({"cross-site", "same-site"})  # same-site: another port of this machine, for example

#: Everything comes from here; nothing is framed, evaluated or sent elsewhere. Images may also be made by the page
#: itself (previews before an upload), and styles of formulas are files of ours.
CONTENT_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data: blob:; font-src 'self'; "
    "connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)
HEADERS: Mapping[str, str] = {
    "content-security-policy": CONTENT_POLICY,
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "x-frame-options": "DENY",
}


@dataclass(frozen=True, slots=True)
class Request:
    """What of a request says where it comes from."""

    method: str = "GET"
    path: str = "/"
    host: str = ""
    origin: str = ""
    fetch_site: str = ""
    fetch_mode: str = ""
    peer: str = ""
    accept: str = ""

    @property
    def is_from_person(self) -> bool:
        """Whether a browser shows the answer to somebody; programs ask for anything or for JSON."""
        return self.method in ("GET", "HEAD") and "text/html" in self.accept


def is_loopback(host: str) -> bool:
    """Whether a name or address is this machine's own."""
    address = read_address(host)
    if address is None:
        return host.lower().rstrip(".") in LOOPBACK_NAMES
    mapped = address.ipv4_mapped if isinstance(address, ipaddress.IPv6Address) else None
    return (mapped or address).is_loopback


def read_address(host: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    try:
        return ipaddress.ip_address(host.strip("[]").partition("%")[0])
    except ValueError:
        return None


def split_host(host: str) -> str:
    """The name in a Host header, without its port and in small letters; empty: it is none."""
    try:
        parts = urlsplit(f"//{host}")
        named = parts.hostname or ""
        _ = parts.port  # raises for a port that is none
    except ValueError:
        return ""
    is_plain = not (parts.username or parts.password or parts.path or parts.query or parts.fragment)
    return named.rstrip(".") if is_plain else ""


def is_known_host(host: str, names: frozenset[str]) -> bool:
    """A page of somebody else can make its own name point here, but it cannot make the browser send another name."""
    name = split_host(host)
    if not name:
        return False
    return name in names or name in LOOPBACK_NAMES or read_address(name) is not None


def is_foreign(request: Request, is_page: bool) -> bool:
    """Whether another site's page had the browser ask this; a link to a page of ours may be followed."""
    if is_page and request.method in ("GET", "HEAD") and request.fetch_mode in ("", "navigate"):
        return False
    if request.fetch_site in _FOREIGN_SITES:
        return True
    return bool(request.origin) and not is_own_origin(request.origin, request.host)


def is_own_origin(origin: str, host: str) -> bool:
    """The origin names the host that was asked; the scheme may differ behind a proxy that does TLS."""
    scheme, found, place = origin.partition("://")
    if not found or scheme not in ("http", "https"):
        return False
    return _with_port(place, scheme) == _with_port(host, scheme)


def _with_port(place: str, scheme: str) -> str:
    place = place.lower()
    has_port = ":" in place.rpartition("]")[2]
    return place if has_port else f"{place}:{443 if scheme == 'https' else 80}"
