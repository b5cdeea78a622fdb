"""Where the store of a home is: a file in it, or a database that the settings name by its address."""

from collections.abc import Callable
from pathlib import Path
from typing import TypeAlias

from hermes_base.text.store_address import describe_store_address
from hermes_constants import STORE_FILE

StorePlace: TypeAlias = Path | str
_ADDRESSES = ("postgresql://", "postgres://")


def _know_none(home: Path) -> str:
    del home
    return ""


_find_address: Callable[[Path], str] = _know_none


def learn_addresses(find: Callable[[Path], str]) -> None:
    """Whoever reads the settings says how the address for a home is found; empty: its store is a file."""
    global _find_address
    _find_address = find


def find_place(home: Path) -> StorePlace:
    """Raises ConfigProblem while the settings cannot be read: a file is never taken in the place of a database (I6)."""
    return _find_address(home) or home / STORE_FILE


def is_address(place: StorePlace) -> bool:
    """Whether the store is a database by its address, which other gateways may share; not a file."""
    return str(place).startswith(_ADDRESSES)


def describe_place(place: StorePlace) -> str:
    """As it is shown: without a login."""
    return describe_store_address(str(place)) if is_address(place) else str(place)


def has_store(place: StorePlace) -> bool:
    """Whether there is something to read; a database is there until it is asked."""
    return is_address(place) or Path(place).exists()
