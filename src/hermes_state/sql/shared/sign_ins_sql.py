"""Who is signed in on the page, on whichever gateway: cookies by their digests, so that nobody who reads the store can
use one. And the pace at which passwords are tried, which is one for all gateways."""

from hermes_state.key_store import SignInRow
from hermes_state.sql.engines.engine import Sql, StorePart, Transaction
from hermes_state.sql.shared.news_sql import SIGN_INS, note_news

ADD_SIGN_IN = (
    "insert into sign_in (digest, bound, home, token, expires) "
    "values (:digest, :bound, :home, :token, clock() + :seconds)"
)
FIND_SIGN_IN = "select bound, home, token, expires - clock() from sign_in where digest = :digest and expires > clock()"
END_SIGN_IN = "delete from sign_in where digest = :digest"
VOID_SIGN_INS = "delete from sign_in where home = :home and token <> :token"
_NAME = "store"  # of the row of `meta` with the name of the store
NAME_STORE = "insert into meta (key, value) values (?, ?) on conflict (key) do nothing"
GET_STORE_NAME = "select value from meta where key = ?"
TAKE_TURN = (
    "insert into pace (name, until) values (:name, clock() + :seconds) on conflict (name) do update set "
    "until = greatest(pace.until, clock()) + :seconds returning until - :seconds - clock()"
)
GIVE_TURN_BACK = "update pace set until = until - :seconds where name = :name"


class SignIns(StorePart):
    def name_store(self, name: str) -> str:
        """What the store is called, from whichever gateway it is looked at; `name` if it has no name yet."""
        _, found = self._db.run(Sql(NAME_STORE, (_NAME, name)), Sql(GET_STORE_NAME, (_NAME,)))
        return str(found.rows[0][0])

    def add(self, digest: str, row: SignInRow) -> None:
        named = {"digest": digest, "bound": row.bound, "home": row.home, "token": row.token, "seconds": row.left}
        self._db.run(Sql(ADD_SIGN_IN, named))

    def find(self, digest: str) -> SignInRow | None:
        """None: there is none of this digest, or not any more."""
        found = self._db.find(FIND_SIGN_IN, {"digest": digest})
        return SignInRow(*found[0]) if found else None

    def end(self, digest: str) -> None:
        """It holds nowhere from now on."""
        self._db.run(Sql(END_SIGN_IN, {"digest": digest}), note_news(SIGN_INS))

    def void(self, home: str, token: str) -> bool:
        """Those that were made in this home under another token than this; whether there were any."""

        def void(db: Transaction) -> bool:
            are_any = db.execute(VOID_SIGN_INS, {"home": home, "token": token}).changed > 0
            db.run(*([note_news(SIGN_INS)] if are_any else []))
            return are_any

        return self._db.write(void)

    def take_turn(self, name: str, seconds: float) -> float:
        """One more turn, which takes so long; how long those before it still take."""
        (taken,) = self._db.run(Sql(TAKE_TURN, {"name": name, "seconds": seconds}))
        return float(taken.rows[0][0])

    def give_turn_back(self, name: str, seconds: float) -> None:
        """It was not needed."""
        self._db.run(Sql(GIVE_TURN_BACK, {"name": name, "seconds": seconds}))
