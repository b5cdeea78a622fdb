"""What all processes of a store should look at again: a number for each topic, counted on with what it is about.

It is counted in the transaction of the change, and each waits for the one before, so nobody who has seen a number has
missed a change before it.
"""

from collections.abc import Mapping

from hermes_state.sql.engines.engine import Found, Sql, StorePart

SIGN_INS = "sign-ins"  # somebody has signed out
PEOPLE = "people"  # somebody has lost access, somewhere or everywhere
SETTINGS = "settings"  # those that concern all
HEALTH = "health"  # of accounts at providers

_PREFIX = "news "
COUNT_NEWS = (
    f"insert into meta (key, value) values ('{_PREFIX}' || ?, '1') "
    "on conflict (key) do update set value = cast(cast(meta.value as integer) + 1 as text)"
)
GET_NUMBER = f"select value from meta where key = '{_PREFIX}' || ?"
GET_NEWS = f"select key, value from meta where key >= '{_PREFIX}' and key < 'news!'"


def note_news(topic: str) -> Sql:
    """Inside the transaction of the change."""
    return Sql(COUNT_NEWS, (topic,))


def read_number(found: Found) -> int:
    """What `GET_NUMBER` found."""
    return int(found.first[0]) if found.first is not None else 0


class News(StorePart):
    def numbers(self) -> Mapping[str, int]:
        """By topic; one that nothing was ever said of has none."""
        return {str(key).removeprefix(_PREFIX): int(value) for key, value in self._db.find(GET_NEWS)}
