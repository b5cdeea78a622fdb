"""Whom a setting that was just changed is for, where gateways share a store; without a gateway here it is told to them
from here."""

from collections.abc import Iterator
from contextlib import closing

from gateway.service.shared.shared_settings import SharedSettings
from hermes_base import setting_table as table
from hermes_base.errors import ConfigProblem, StoreFailure
from hermes_base.setting_owners import is_for_all
from hermes_base.store_place import find_place, is_address
from hermes_cli import config
from hermes_constants import get_hermes_home
from hermes_state.home_lock import holder
from hermes_state.sql.store_sql import Store

FOR_ALL = "It holds for all gateways that share the store, within seconds."
OWN = "It is this machine's own; gateways on other machines keep theirs."
LATER = "Other gateways are told when the store can be reached and a gateway runs here: {problem}"


def find_notes(key: str) -> Iterator[str]:
    home = get_hermes_home()
    try:
        place = find_place(home)
    except ConfigProblem:  # told by whoever reads the settings
        return
    if not is_address(place) or key.startswith("store."):
        return
    if config.is_env_name(key) or not is_for_all(key, known=table.find(key) is not None):
        yield OWN
        return
    if holder(home) is None:
        try:
            with closing(Store(place)) as store:
                SharedSettings(home, store).sync()
        except StoreFailure as problem:
            yield LATER.format(problem=problem)
            return
    yield FOR_ALL
