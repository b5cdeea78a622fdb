"""Where a host leads, and whether that may be called: looked up once, judged, and connected to as judged (G8)."""

import asyncio
import socket
from collections.abc import Sequence
from ipaddress import ip_address

from hermes_net.address_rules import AddressRules, IpAddress, find_fault, read_numeric
from hermes_net.call_values import AddressRefused, Resolve

MOST_ADDRESSES = 4  # of one name that are tried


async def look_up(host: str, port: int) -> Sequence[IpAddress]:
    """The addresses of a host, by the system's resolver, on a thread of its pool."""
    found = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return list(dict.fromkeys(ip_address(where[0]) for *_, where in found))


async def find_addresses(host: str, port: int, rules: AddressRules, resolve: Resolve = look_up) -> Sequence[IpAddress]:
    """All addresses of the host, judged together: one that may not be called refuses the name. OSError: not known."""
    numeric = read_numeric(host)
    found = [numeric] if numeric is not None else list(await resolve(host, port))[:MOST_ADDRESSES]
    for address in found:
        if fault := find_fault(host, address, rules):
            raise AddressRefused(f"{host} is not called: {fault.why}.", kept="Nothing was sent.", fix=fault.fix)
    return found
