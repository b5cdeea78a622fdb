"""Keys of the API, as they are kept."""

from dataclasses import replace

from hermes_state.key_store import USED_SECONDS, KeyRow, check_digest, known_already, make_key_row
from hermes_state.sql.engines.engine import Sql, StorePart, Transaction

_KEY = "id, name, person, created, last_used, revoked"
ADD_KEY = "insert into api_key (id, name, person, created, digest) values (?, ?, ?, ?, ?) on conflict (id) do nothing"
HAS_DIGEST = "select 1 from api_key where digest = ?"
FIND_KEY = f"select {_KEY} from api_key where digest = ? and revoked is null"
GET_KEYS = f"select {_KEY} from api_key order by created, id"
REVOKE = "update api_key set revoked = clock() where id = ? and revoked is null"
USED = "update api_key set last_used = clock() where id = ? and (last_used is null or last_used <= clock() - ?)"


class KeyStore(StorePart):
    def add(self, name: str, person: str, digest: str) -> KeyRow:
        """Keep a new key; StoreFailure when there is one with this digest already, revoked or not."""
        check_digest(digest)

        def add(db: Transaction) -> KeyRow:
            if db.execute(HAS_DIGEST, (digest,)).rows:
                raise known_already()
            row = make_key_row(name, person, db.now())
            while not db.execute(ADD_KEY, (row.id, row.name, row.person, row.created, digest)).changed:
                row = replace(row, id=make_key_row(name, person, row.created).id)
            return row

        return self._db.write(add)

    def find(self, digest: str) -> KeyRow | None:
        """The key that holds; None: there is none, or it was revoked."""
        found = self._db.find(FIND_KEY, (digest,))
        return KeyRow(*found[0]) if found else None

    def keys(self) -> list[KeyRow]:
        """All of them, the revoked ones too, the earliest first."""
        return [KeyRow(*row) for row in self._db.find(GET_KEYS)]

    def revoke(self, key: str) -> bool:
        """It does not hold from now on; False when there is no such key, or it was revoked before."""
        return self._db.run(Sql(REVOKE, (key,)))[0].changed > 0

    def used(self, key: str) -> None:
        """Note that it was used now (to the minute)."""
        self._db.run(Sql(USED, (key, USED_SECONDS)))
