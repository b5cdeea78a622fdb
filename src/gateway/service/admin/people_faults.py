"""What settings and store say of people that does not fit together: homes that cannot be reached, and owners of the
settings who are not the owner. For `hermes doctor` and the set-up."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from gateway.core.people import OWNER, listed_role
from gateway.platforms.platform_list import spec_of
from gateway.service.admin.home_chats import find_trouble
from hermes_base.account_names import read_accounts
from hermes_base.settings import Settings
from hermes_state.people_records import mark_identity
from hermes_state.sql.engines.engine import Transaction
from hermes_state.sql.habits_sql import ALL_HABITS, KNOWS_CHAT, read_habits
from hermes_state.sql.people_sql import FIND_PERSON, GET_IDENTITIES, GET_OWNER, HAS_MARK

HOME_FIX = "Say /sethome in the chat, or on the machine: hermes people home {person} PLATFORM CHAT --account NAME"
OWNER_FIX = (
    "There is one owner. `hermes people role ID member` for whoever it is, then `hermes people role ID owner` for whom "
    "you mean; or take the line out."
)
REMOVED_FIX = "`hermes people link ID {platform} {sender}` lets them in again."


def find_homes(db: Transaction, settings: Settings) -> Iterator[tuple[str, str]]:
    """Homes at which nothing can be told: a sentence, and what puts it right."""
    for person, *columns in db.execute(ALL_HABITS).rows:
        home = read_habits(columns).home
        trouble = find_trouble(settings, home, lambda key: bool(db.execute(KNOWS_CHAT, (key,)).rows)) if home else ""
        if home is not None and trouble:
            what = f"The home channel of {person}, {home.platform} {home.chat}, cannot be reached: {trouble}"
            yield what, HOME_FIX.format(person=person)


def find_owners(db: Transaction, settings: Settings) -> Iterator[tuple[str, str]]:
    """Whom the settings call the owner, and who is not."""
    for platform, section in settings.platforms.items():
        for sender in list_named_owners(platform, section):
            if listed_role(settings, platform, sender) == OWNER:
                yield from filter(None, [find_owner_fault(db, platform, sender)])


def list_named_owners(platform: str, section: object) -> list[str]:
    """The senders that a platform's section, or those of its accounts, name as the owner."""
    every = [one for one in (section, *read_accounts(section).values()) if isinstance(one, Mapping)]
    return [id for one in every for id in spec_of(platform).person_ids.read(one.get("owner"))]


@dataclass(frozen=True, slots=True)
class LetIn:
    """Who may speak, as far as a set-up asks: whether somebody on its platform, and who the owner is anywhere."""

    known: bool
    owner: str = ""
    owner_name: str = ""


def look_around(db: Transaction, platform: str) -> LetIn:
    known = any(row[0] == platform for row in db.execute(GET_IDENTITIES).rows)
    owner = db.execute(GET_OWNER).first
    return LetIn(known) if owner is None else LetIn(known, str(owner[0]), str(owner[1]))


def find_owner_fault(db: Transaction, platform: str, sender: str) -> tuple[str, str] | None:
    """Why somebody whom the settings call the owner is not; None: they are, or will be when they write."""
    owner, known = db.execute(GET_OWNER).first, db.execute(FIND_PERSON, (platform, sender)).first
    named = f"platforms.{platform}.owner names {sender}"
    if known is None and db.execute(HAS_MARK, (mark_identity(platform, sender),)).rows:
        return f"{named}, who was removed and is not let in.", REMOVED_FIX.format(platform=platform, sender=sender)
    if known is None or owner is None or known[0] == owner[0]:
        return None
    return f"{named}, and {owner[1]} ({owner[0]}) is the owner: {known[1]} ({known[0]}) stays what they are.", OWNER_FIX
