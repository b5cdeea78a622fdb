"""Accounts at providers that refuse every gateway which uses them, each until a time: a key that is not valid, a quota
that is used up. A key is known by its fingerprint only."""

from hermes_state.sql.engines.engine import Sql, StorePart
from hermes_state.sql.shared.news_sql import HEALTH, note_news
from hermes_state.texts import clean

DROP_WELL = "delete from unwell_account where until <= clock()"
NOTE_UNWELL = (
    "insert into unwell_account (name, until) values (:name, clock() + :seconds) "
    "on conflict (name) do update set until = greatest(unwell_account.until, excluded.until)"
)
GET_UNWELL = "select name, until - clock() from unwell_account where until > clock() order by name"


class UnwellAccounts(StorePart):
    def note(self, name: str, seconds: float) -> None:
        """It is left alone for so long, by all."""
        noted = Sql(NOTE_UNWELL, {"name": clean(name), "seconds": seconds})
        self._db.run(Sql(DROP_WELL), noted, note_news(HEALTH))

    def every(self) -> list[tuple[str, float]]:
        """Each with the seconds that are left."""
        return [(str(name), float(left)) for name, left in self._db.find(GET_UNWELL)]
