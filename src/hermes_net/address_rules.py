"""Which addresses may be called: public ones, and of the others those that the settings name. Pure."""

import re
import socket
from collections.abc import Iterable
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network
from typing import NamedTuple

from hermes_base.errors import ConfigProblem

IpAddress = IPv4Address | IPv6Address
IpNetwork = IPv4Network | IPv6Network

#: What clouds tell a machine about itself, keys included: never called, whatever the settings say.
METADATA_NAMES = frozenset(
    {
        *("metadata", "metadata.google.internal", "metadata.goog", "instance-data", "instance-data.ec2.internal"),
        "metadata.tencentyun.com",
    }
)
METADATA: tuple[IpNetwork, ...] = tuple(
    map(
        ip_network,
        (
            *("169.254.169.0/24", "169.254.170.0/24", "100.100.100.200/32", "192.0.0.192/32", "168.63.129.16/32"),
            *("169.254.0.23/32", "169.254.42.42/32"),
            *("fd00:ec2::/32", "fd20:ce::/32", "fd00:42::42/128", "fe80::a9fe:a9fe/128"),
        ),
    )
)
#: Of version 4: this network, private, shared by carriers, loopback, link-local, for protocols, documents, relays,
#: measurements, multicast, reserved.
_NOT_PUBLIC_4: tuple[IpNetwork, ...] = tuple(
    map(
        ip_network,
        (
            *("0.0.0.0/8", "10.0.0.0/8", "100.64.0.0/10", "127.0.0.0/8", "169.254.0.0/16", "172.16.0.0/12"),
            *("192.0.0.0/24", "192.0.2.0/24", "192.88.99.0/24", "192.168.0.0/16", "198.18.0.0/15"),
            *("198.51.100.0/24", "203.0.113.0/24", "224.0.0.0/4", "240.0.0.0/4"),
        ),
    )
)
#: Of version 6 only this is handed out, and of it not what is for protocols (Teredo among them) and documents.
_PUBLIC_6 = ip_network("2000::/3")
_NOT_PUBLIC_6: tuple[IpNetwork, ...] = tuple(map(ip_network, ("2001::/23", "2001:db8::/32", "3fff::/20")))
#: Networks whose addresses stand for one of version 4, and how many bits stand behind it.
_EMBEDDING = (
    (IPv6Network("::ffff:0:0/96"), 0),  # mapped
    (IPv6Network("::ffff:0:0:0/96"), 0),  # translated
    (IPv6Network("64:ff9b::/96"), 0),  # NAT64
    (IPv6Network("2002::/16"), 80),  # 6to4
    (IPv6Network("::/96"), 0),  # compatible; holds :: and ::1, too
)
_LOCAL_NAT64, _TEREDO = IPv6Network("64:ff9b:1::/48"), IPv6Network("2001::/32")
_ISATAP, _ISATAP_MASK = 0x5EFE, 0xFDFFFFFF  # what stands before the address of version 4, but for one bit
_THIS_MACHINE_6 = frozenset({IPv6Address("::"), IPv6Address("::1")})
_NUMBER = r"(?:0x[0-9a-f]*|[0-9]+)"
_NUMERIC = re.compile(rf"{_NUMBER}(?:\.{_NUMBER}){{0,3}}")
_NAME = re.compile(r"[\w-]+(?:\.[\w-]+)*")


@dataclass(frozen=True, slots=True)
class AddressRules:
    """What may be called although it is not public; metadata never may."""

    names: frozenset[str] = frozenset()
    networks: tuple[IpNetwork, ...] = ()


def read_rules(entries: Iterable[str]) -> AddressRules:
    """The rules of the setting `network.private`: host names, addresses and ranges; ConfigProblem for what is none."""
    names, networks = set(), []
    for entry in entries:
        try:
            networks.append(ip_network(entry.strip(), strict=False))
        except ValueError:
            name = normalise_host(entry)
            if not _NAME.fullmatch(name) or read_numeric(name) is not None:
                raise ConfigProblem(
                    f"network.private holds '{entry}', which is neither a host name nor an address nor a range.",
                    fix="Write it like nas.lan, 192.168.1.5 or 10.0.0.0/8.",
                ) from None
            names.add(name)
    return AddressRules(frozenset(names), tuple(networks))


def normalise_host(host: str) -> str:
    return host.strip().strip("[]").lower().rstrip(".")


def read_numeric(host: str) -> IpAddress | None:
    """The address that a host stands for without being looked up: in the usual form, or as the C library reads it, in
    decimal, octal or hexadecimal (`2130706433`, `0177.1`, `0x7f.0.0.1`)."""
    host = normalise_host(host)
    try:
        return ip_address(host)
    except ValueError:
        if not _NUMERIC.fullmatch(host):
            return None
    try:
        return IPv4Address(socket.inet_aton(host))
    except OSError:
        return None


def find_meant(address: IpAddress) -> IpAddress:
    """The address that packets end at: of one that stands for an address of version 4, that one."""
    if isinstance(address, IPv4Address):
        return address
    plain = IPv6Address(int(address))  # without the name of an interface
    if plain in _THIS_MACHINE_6:
        return plain
    shift = next((shift for network, shift in _EMBEDDING if plain in network), None)
    return plain if shift is None else IPv4Address((int(plain) >> shift) & 0xFFFFFFFF)


def list_inner(address: IpAddress) -> list[IpAddress]:
    """Every address that packets to this one may end at. In a network's own NAT64 the network says where in it the
    address of version 4 stands (RFC 6052); in Teredo stand those of a server and, inverted, of a client; in ISATAP one
    stands at the end, whatever the network."""
    found = [address, find_meant(address)]
    whole = int(address)
    inner: tuple[int, ...] = ()
    if isinstance(address, IPv6Address) and IPv6Address(whole) in _LOCAL_NAT64:
        behind_48 = (whole >> 64 & 0xFFFF) << 16 | whole >> 40 & 0xFFFF
        behind_56 = (whole >> 64 & 0xFF) << 24 | whole >> 32 & 0xFFFFFF
        inner = (behind_48, behind_56, whole >> 24, whole)
    elif isinstance(address, IPv6Address) and IPv6Address(whole) in _TEREDO:
        inner = (whole >> 64, ~whole)
    elif isinstance(address, IPv6Address) and whole >> 32 & _ISATAP_MASK == _ISATAP:
        inner = (whole,)
    return [*found, *(IPv4Address(one & 0xFFFFFFFF) for one in inner)]


def is_public(address: IpAddress) -> bool:
    meant = find_meant(address)
    if isinstance(meant, IPv4Address):
        return not any(meant in network for network in _NOT_PUBLIC_4)
    return meant in _PUBLIC_6 and not any(meant in network for network in _NOT_PUBLIC_6)


class AddressFault(NamedTuple):
    """Why an address may not be called, and what whoever owns it can do about that; empty: nothing."""

    why: str
    fix: str = ""


def find_fault(host: str, address: IpAddress, rules: AddressRules) -> AddressFault | None:
    """Why an address that a host leads to may not be called; None: it may."""
    name, meant = normalise_host(host), find_meant(address)
    if name in METADATA_NAMES or any(one in network for one in list_inner(address) for network in METADATA):
        return AddressFault("it leads to what a cloud tells its machines about themselves, which is never called")
    if is_public(address) or name in rules.names or any(meant in network for network in rules.networks):
        return None
    fix = "If it is yours, add the host to `network.private` in the settings."
    return AddressFault("it leads to a private address of this machine or its network", fix)
