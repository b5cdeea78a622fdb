"""Variables that plugins would like commands to see. They are noted; what commands get is the owner's word alone
(`terminal.env`), since anything else may be a secret (G6)."""

import logging
from collections.abc import Iterable

log = logging.getLogger(__name__)

_wanted: set[str] = set()


def register_env_passthrough(names: Iterable[str]) -> None:
    """Note the wish, and say once how the owner grants it."""
    new = {str(name) for name in names} - _wanted
    if new:
        _wanted.update(new)
        log.info("a plugin wants commands to see %s; to allow it, name them in terminal.env", ", ".join(sorted(new)))


def get_all_passthrough() -> frozenset[str]:
    return frozenset(_wanted)
