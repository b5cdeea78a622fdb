"""When a person wants to hear nothing that they did not ask for: pure, but for the look at the machine's time zones."""

import difflib
import logging
import re
import zoneinfo
from dataclasses import dataclass
from datetime import datetime, time, timedelta, tzinfo

from hermes_base.errors import HermesError

log = logging.getLogger(__name__)

_TIMES = re.compile(r"\s*([01]?\d|2[0-3]):([0-5]\d)\s*[-–—]\s*([01]?\d|2[0-3]):([0-5]\d)\s*")
_NO_ZONES = (
    "This machine has no list of time zones. Install it: the package tzdata of the system, or `pip install tzdata` "
    "into the environment of Hermes. Then restart the gateway."
)


@dataclass(frozen=True, slots=True)
class QuietHours:
    """From one time of the day to another, over midnight if that is where it leads."""

    start: time
    end: time

    def __str__(self) -> str:
        return f"{self.start:%H:%M}-{self.end:%H:%M}"

    def find_end(self, now: float, zone: tzinfo | None) -> float:
        """When the quiet hours that hold now are over; 0.0: none hold. Without a zone: by the machine's own.

        They begin and end once a day, whatever clocks are put forward or back meanwhile: a time that comes twice counts
        the first time, and one that is left out counts as much later as the clocks were put forward.
        """
        today = datetime.fromtimestamp(now, zone).date()
        for begun in (today - timedelta(days=1), today):
            ended = begun if self.end > self.start else begun + timedelta(days=1)
            start = datetime.combine(begun, self.start, zone).timestamp()
            end = datetime.combine(ended, self.end, zone).timestamp()
            if start <= now < end:
                return end
        return 0.0


def read_quiet(text: str) -> QuietHours:
    """The hours of `22:00-07:00`; a sentence for what is no such thing."""
    found = _TIMES.fullmatch(text)
    if found is None:
        raise HermesError(
            f"{text[:40]!r} are no quiet hours.",
            kept="Nothing was changed.",
            fix="Say for example 22:00-07:00, or off.",
        )
    hours = QuietHours(time(int(found[1]), int(found[2])), time(int(found[3]), int(found[4])))
    if hours.start == hours.end:
        raise HermesError("Quiet hours that end when they begin are none.", kept="Nothing was changed.")
    return hours


def find_zone(name: str) -> tzinfo:
    """The time zone of this name, in any case; a sentence when there is none, or when the machine knows none at all."""
    try:
        return zoneinfo.ZoneInfo(name)
    except (ValueError, OSError, zoneinfo.ZoneInfoNotFoundError):
        known = {zone.lower(): zone for zone in zoneinfo.available_timezones()}
    if not known:
        raise HermesError("The time zone cannot be looked up.", kept="Nothing was changed.", fix=_NO_ZONES)
    wanted = "_".join(name.lower().split())
    if wanted in known:
        return zoneinfo.ZoneInfo(known[wanted])
    near = difflib.get_close_matches(wanted, known, n=3) or [zone for zone in known if zone.endswith(f"/{wanted}")][:3]
    meant = " or ".join(known[zone] for zone in near)
    fix = f"Did you mean {meant}?" if meant else "Say a place of the tz database, such as Europe/Berlin or UTC."
    raise HermesError(f"There is no time zone {name[:60]!r}.", kept="Nothing was changed.", fix=fix)


def zone_or_own(name: str) -> tzinfo | None:
    """The zone that somebody has set; None, the machine's own: none is set, or it cannot be looked up any more."""
    if not name:
        return None
    try:
        return find_zone(name)
    except HermesError as problem:
        log.warning("%s The machine's own time zone stands in for it.", problem)
        return None


def hold_until(quiet: str, zone: str, now: float) -> float:
    """Until when what nobody asked for waits, by what a person has set; 0.0: it does not."""
    return read_quiet(quiet).find_end(now, zone_or_own(zone)) if quiet else 0.0
