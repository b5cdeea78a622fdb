"""Requests that clients of the API may send again, to any gateway: where the first of each went."""

from hermes_state.key_store import RepeatRow
from hermes_state.sql.engines.engine import Sql, StorePart
from hermes_state.texts import clean

KEEP_REPEAT = (
    "insert into api_repeat (name, mark, conversation, message, until) "
    "values (:name, :mark, :conversation, :message, clock() + :seconds) on conflict (name) do update set "
    "mark = excluded.mark, conversation = excluded.conversation, message = excluded.message, until = excluded.until "
    "where api_repeat.until <= clock() or :anew = 1"
)
GET_REPEAT = "select mark, conversation, message from api_repeat where name = :name and until > clock()"


class ApiRepeats(StorePart):
    def find(self, name: str) -> RepeatRow | None:
        """Where the request of this name went; None: it is the first, or so old that it is as good as that."""
        found = self._db.find(GET_REPEAT, {"name": clean(name)})
        return RepeatRow(*found[0]) if found else None

    def keep(self, name: str, place: RepeatRow, seconds: float, *, anew: bool = False) -> RepeatRow:
        """Where it goes, for so many seconds; of several at the same time the first holds for all, unless it is kept
        `anew`. Which one holds."""
        named = {"name": clean(name)}
        row = {"mark": place.mark, "conversation": clean(place.conversation), "message": clean(place.message)}
        kept = Sql(KEEP_REPEAT, {**named, **row, "seconds": seconds, "anew": int(anew)})
        _, found = self._db.run(kept, Sql(GET_REPEAT, named))
        return RepeatRow(*found.rows[0]) if found.rows else place
