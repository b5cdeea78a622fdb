"""Keys of the API, as they are kept."""

from dataclasses import replace

from hermes_state.key_store import USED_SECONDS, KeyRow, check_digest, known_already, make_key_row
from hermes_state.sql.connection import StorePart

_KEY = "id, name, person, created, last_used, revoked"
ADD_KEY = "insert into api_key (id, name, person, created, digest) values (?, ?, ?, ?, ?) on conflict (id) do nothing"
HAS_DIGEST = "select 1 from api_key where digest = ?"
FIND_KEY = f"select {_KEY} from api_key where digest = ? and revoked is null"
GET_KEYS = f"select {_KEY} from api_key order by created, id"
REVOKE = "update api_key set revoked = ? where id = ? and revoked is null"
USED = "update api_key set last_used = ? where id = ? and (last_used is null or last_used <= ?)"


class KeyStore(StorePart):
    def add(self, name: str, person: str, digest: str) -> KeyRow:
        """Keep a new key; StoreFailure when there is one with this digest already, revoked or not."""
        check_digest(digest)
        with self._db.write() as db:
            if db.execute(HAS_DIGEST, (digest,)).fetchone() is not None:
                raise known_already()
            row = make_key_row(name, person, self._clock())
            while not db.execute(ADD_KEY, (row.id, row.name, row.person, row.created, digest)).rowcount:
                row = replace(row, id=make_key_row(name, person, row.created).id)
            return row

    def find(self, digest: str) -> KeyRow | None:
        """The key that holds; None: there is none, or it was revoked."""
        found = self._db.read(lambda db: db.execute(FIND_KEY, (digest,)).fetchone())
        return None if found is None else KeyRow(*found)

    def keys(self) -> list[KeyRow]:
        """All of them, the revoked ones too, the earliest first."""
        return self._db.read(lambda db: [KeyRow(*row) for row in db.execute(GET_KEYS)])

    def revoke(self, key: str) -> bool:
        """It does not hold from now on; False when there is no such key, or it was revoked before."""
        with self._db.write() as db:
            return db.execute(REVOKE, (self._clock(), key)).rowcount > 0

    def used(self, key: str) -> None:
        """Note that it was used now (to the minute)."""
        with self._db.write() as db:
            now = self._clock()
            db.execute(USED, (now, key, now - USED_SECONDS))
