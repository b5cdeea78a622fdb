"""What the client is told of where a database is: all of it from the address, nothing from the environment."""

import os
import pwd
from collections.abc import Mapping
from typing import Any

from psycopg.conninfo import conninfo_to_dict

from hermes_base.text.store_address import describe_store_address

LONGEST_CONNECT, SHORTEST_CONNECT = 10, 2  # seconds for a connection
_SOCKETS = "/var/run/postgresql,/tmp"  # where a server of this machine listens
#: A connection whose other end is gone is given up within seconds.
_SOCKET: Mapping[str, Any] = {
    "keepalives_idle": 2,
    "keepalives_interval": 1,
    "keepalives_count": 3,
    "tcp_user_timeout": 4000,
}
#: Variables with which the client would look elsewhere, or as somebody else (I6): the address decides instead.
REDIRECTING = ("PGHOST", "PGHOSTADDR", "PGPORT", "PGUSER", "PGPASSWORD", "PGDATABASE", "PGOPTIONS")


def find_parameters(url: str, patience: float) -> dict[str, Any]:
    """The parameters of a connection. What an address leaves out is filled in here: the client would take it from a
    variable of the environment."""
    given = conninfo_to_dict(url)
    own = {"host": _SOCKETS, "hostaddr": "", "port": "5432", "user": _name_user(), "password": "", "options": ""}
    seconds = min(LONGEST_CONNECT, max(SHORTEST_CONNECT, int(patience)))
    return {
        **({} if "service" in given else own),
        **given,
        "connect_timeout": seconds,
        "application_name": "hermes",
        **_SOCKET,
    }


def name_place(url: str) -> str:
    """The address without name and password, as it is shown."""
    return describe_store_address(url)


def _name_user() -> str:
    try:
        return pwd.getpwuid(os.geteuid()).pw_name
    except KeyError:  # a user without a name, as in containers
        return str(os.geteuid())
