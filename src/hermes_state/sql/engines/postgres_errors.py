"""Every error of PostgreSQL and of its client as a sentence: what happened, what was kept, what to do."""

from collections.abc import Mapping

import psycopg
from psycopg_pool import PoolClosed, PoolTimeout

from hermes_base.errors import StoreAway, StoreFailure

_NOTHING_STORED, _NOTHING_CHANGED = "Nothing of this was stored.", "Nothing was changed."
#: sqlstate, or its class -> what happened, what was kept, what to do
_SENTENCES: Mapping[str, tuple[str, str, str]] = {
    "28": ("did not let this user in: name or password is wrong", "", "Check store.url and HERMES_STORE_PASSWORD."),
    "3D000": ("does not exist", "", "Create it (createdb), or correct store.url."),
    "3F000": ("has no schema that this user may write to", _NOTHING_CHANGED, "Give it rights on its schema."),
    "42501": ("does not give this user the rights it needs", _NOTHING_CHANGED, "Make the user its owner."),
    "25006": ("may only be read: it is a replica", _NOTHING_STORED, "Name the primary in store.url."),
    "53100": ("cannot grow: the disk of its server is full", "This write was not stored.", "Free some space there."),
    "53300": ("has too many connections", _NOTHING_STORED, "Raise max_connections there, or close some."),
    "57P": ("is shutting down or starting", _NOTHING_STORED, "It is asked again by itself."),
    "57014": ("took too long for an answer", _NOTHING_STORED, "Look at the load of its server."),
    "55P03": ("is held up by another transaction", _NOTHING_STORED, "Try again."),
    "08": ("cannot be reached", _NOTHING_STORED, "Check the network and the server."),
}
#: What may be over in a moment, without anybody changing a setting.
_PASSING = frozenset({"08", "53300", "57P"})
#: What the client library says without a code, and the code that it means; the first one that is found counts.
_SAID = (
    ("password authentication failed", "28"),
    ("no password supplied", "28"),
    ("no pg_hba.conf entry", "28"),
    ("too many connections", "53300"),
    ("too many clients", "53300"),
    ("connection slots are reserved", "53300"),
    ("permission denied for database", "42501"),
    ("session is read-only", "25006"),
    ("role ", "28"),
    ("does not exist", "3D000"),
    ("no such database", "3D000"),
    ("starting up", "57P"),
    ("shutting down", "57P"),
)


def explain(name: str, error: Exception) -> StoreFailure:
    """A StoreAway where the database may be there again by itself."""
    if isinstance(error, UnicodeEncodeError):
        return StoreFailure("A name is not valid Unicode.", kept="Nothing was written.")
    if isinstance(error, PoolClosed):
        return StoreFailure(f"The store {name} is closed.", kept="Nothing of this call was stored.")
    code = _find_code(error)
    for length in (5, 3, 2):
        if known := _SENTENCES.get(code[:length]):
            what, kept, fix = known
            kind = StoreAway if code[:length] in _PASSING else StoreFailure
            return kind(f"The store {name} {what}.", kept=kept, fix=fix)
    return StoreFailure(
        f"The store {name} refused a call: {' '.join(str(error).split())}.", kept="Nothing of it was stored."
    )


def say_replica(name: str) -> StoreFailure:
    return explain(name, psycopg.errors.ReadOnlySqlTransaction())


def say_no_rights(name: str) -> StoreFailure:
    return explain(name, psycopg.errors.InsufficientPrivilege())


def _find_code(error: Exception) -> str:
    code = getattr(error, "sqlstate", None) or ""
    if isinstance(error, PoolTimeout):
        return "08"
    if not code and isinstance(error, psycopg.OperationalError):
        said = str(error)
        return next((code for words, code in _SAID if words in said), "08")
    return code
