"""The settings that concern all gateways of a store. Values are texts here; which settings there are, others know."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass

from hermes_state.sql.engines.engine import NothingDone, Sql, StorePart, Transaction
from hermes_state.sql.shared.news_sql import GET_NUMBER, SETTINGS, note_news, read_number
from hermes_state.texts import clean

GET_SETTINGS = "select key, value, changed, changed_by from shared_setting order by key"
PUT_SETTING = (
    "insert into shared_setting (key, value, changed, changed_by) values (:key, :value, clock(), :by) "
    "on conflict (key) do update set value = excluded.value, changed = excluded.changed, "
    "changed_by = excluded.changed_by"
)
DROP_SETTING = "delete from shared_setting where key = ?"


@dataclass(frozen=True, slots=True)
class StoredSetting:
    value: str
    changed: float
    changed_by: str  # where


@dataclass(frozen=True, slots=True)
class StoredSettings:
    """All of them; each change has a number, which is 0 as long as nobody has put any here."""

    number: int
    settings: Mapping[str, StoredSetting]


class SettingStore(StorePart):
    def read(self) -> StoredSettings:
        return self._db.read(_read)

    def write(self, number: int, put: Mapping[str, str], drop: Collection[str], by: str) -> int | None:
        """Change some, as whoever has seen this number; the new one, or None (and nothing is changed) when there is
        another number by now."""

        def write(db: Transaction) -> int:
            counted = db.run(note_news(SETTINGS), Sql(GET_NUMBER, (SETTINGS,)))[1]
            if read_number(counted) != number + 1:
                raise NothingDone
            db.run(
                *(Sql(PUT_SETTING, {"key": clean(key), "value": clean(put[key]), "by": clean(by)}) for key in put),
                *(Sql(DROP_SETTING, (key,)) for key in drop),
            )
            return number + 1

        try:
            return self._db.write(write)
        except NothingDone:
            return None


def _read(db: Transaction) -> StoredSettings:
    rows = db.execute(GET_SETTINGS).rows
    number = read_number(db.execute(GET_NUMBER, (SETTINGS,)))
    return StoredSettings(number, {str(key): StoredSetting(*rest) for key, *rest in rows})
