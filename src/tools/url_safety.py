"""`is_safe_url`: whether an address that others may have chosen may be called, by the rules for web pages (G8)."""

import socket
from ipaddress import ip_address
from urllib.parse import urlsplit

from hermes_base.errors import ConfigProblem
from hermes_cli import config as cli_config
from hermes_net.address_rules import find_fault, read_numeric, read_rules


def is_safe_url(url: str) -> bool:
    """False for what is no web address, is not known, or leads to a private one that `network.private` does not name.

    A name may lead elsewhere a moment later: what is called has to be judged when it is called.
    """
    try:
        parts = urlsplit(url)
        host, port = parts.hostname, parts.port
        if parts.scheme not in ("http", "https") or not host:
            return False
        rules, numeric = read_rules(cli_config.load_last_good().network.private), read_numeric(host)
        looked_up = socket.getaddrinfo(host, port or 443, type=socket.SOCK_STREAM) if numeric is None else []
        found = [numeric] if numeric is not None else [ip_address(where[0]) for *_, where in looked_up]
    except (ValueError, AttributeError, OSError, ConfigProblem):  # among them a name that cannot be encoded
        return False
    return bool(found) and not any(find_fault(host, address, rules) for address in found)
