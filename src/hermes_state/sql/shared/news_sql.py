"""What all processes of a store should look at again: a number for each topic, counted on with what it is about.

It is counted in the transaction of the change, and each waits for the one before, so nobody who has seen a number has
missed a change before it.
"""

from collections.abc import Mapping

from hermes_state.sql.engines.engine import Sql, StorePart

SIGN_INS = "sign-ins"  # somebody has signed out
PEOPLE = "people"  # somebody has lost access, somewhere or everywhere

_PREFIX = "news "
COUNT_NEWS = (
    "insert into meta (key, value) values (?, '1') "
    "on conflict (key) do update set value = cast(cast(meta.value as integer) + 1 as text)"
)
GET_NEWS = f"select key, value from meta where key >= '{_PREFIX}' and key < 'news!'"


def note_news(topic: str) -> Sql:
    """Inside the transaction of the change."""
    return Sql(COUNT_NEWS, (_PREFIX + topic,))


class News(StorePart):
    def numbers(self) -> Mapping[str, int]:
        """By topic; one that nothing was ever said of has none."""
        return {str(key).removeprefix(_PREFIX): int(value) for key, value in self._db.find(GET_NEWS)}
