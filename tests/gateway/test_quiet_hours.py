"""When quiet hours end, over days on which clocks are put forward and back."""

import zoneinfo
from datetime import UTC, datetime, time, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.core.quiet_hours import QuietHours, find_zone, hold_until, read_quiet, zone_or_own
from hermes_base.errors import HermesError

BERLIN = find_zone("Europe/Berlin")
NIGHT = read_quiet("22:00-07:00")
MINUTES = st.integers(0, 24 * 60 - 1).map(lambda minute: time(minute // 60, minute % 60))
ZONES = st.sampled_from(["Europe/Berlin", "America/New_York", "Australia/Lord_Howe", "Asia/Kolkata", "UTC"])


def at(text: str, fold: int = 0) -> float:
    return datetime.fromisoformat(text).replace(tzinfo=BERLIN, fold=fold).timestamp()


@pytest.mark.parametrize(
    ("now", "end"),
    [
        ("2026-11-16 21:59:59", ""),
        ("2026-11-16 22:00", "2026-11-17 07:00"),
        ("2026-11-17 00:00", "2026-11-17 07:00"),
        ("2026-11-17 06:59:59", "2026-11-17 07:00"),
        ("2026-11-17 07:00", ""),
        ("2026-03-28 23:00", "2026-03-29 07:00"),  # clocks are put forward at 02:00
        ("2026-03-29 03:30", "2026-03-29 07:00"),
        ("2026-10-24 23:00", "2026-10-25 07:00"),  # and back at 03:00
    ],
)
def test_the_night_ends_in_the_morning(now: str, end: str) -> None:
    assert NIGHT.find_end(at(now), BERLIN) == (at(end) if end else 0.0)


def test_the_nights_of_a_change_are_an_hour_shorter_and_longer() -> None:
    for evening, hours in (("2026-03-28 22:00", 8), ("2026-10-24 22:00", 10), ("2026-11-16 22:00", 9)):
        assert NIGHT.find_end(at(evening), BERLIN) - at(evening) == hours * 3600


def test_a_time_that_comes_twice_or_never() -> None:
    """An end at 02:30 holds once, in the night in which it comes twice, and is an hour late where it is left out."""
    early = read_quiet("22:00-02:30")
    assert early.find_end(at("2026-10-25 01:00"), BERLIN) == at("2026-10-25 02:30")
    assert early.find_end(at("2026-10-25 02:15", fold=1), BERLIN) == 0.0
    assert early.find_end(at("2026-03-29 01:00"), BERLIN) == at("2026-03-29 03:30")


def test_hours_of_the_day() -> None:
    noon = read_quiet("12:00 – 13:30")
    assert str(noon) == "12:00-13:30"
    assert noon.find_end(at("2026-11-16 12:10"), BERLIN) == at("2026-11-16 13:30")
    assert noon.find_end(at("2026-11-16 13:30"), BERLIN) == 0.0


@given(MINUTES, MINUTES, ZONES, st.datetimes(datetime(2020, 1, 1), datetime(2035, 1, 1)))
def test_they_always_end(start: time, end: time, name: str, moment: datetime) -> None:
    """The end is ahead, within a day and the most that clocks are moved by, and holds no quiet hours itself, unless
    the next ones begin just then."""
    if start == end:
        return
    zone, now = zoneinfo.ZoneInfo(name), moment.replace(tzinfo=UTC).timestamp()
    hours = QuietHours(start, end)
    until = hours.find_end(now, zone)
    local = datetime.fromtimestamp(now, zone)
    around = [local - timedelta(hours=2), local + timedelta(hours=2)]
    is_plain = len({each.astimezone(zone).utcoffset() for each in around}) == 1
    if is_plain and around[0].date() == around[1].date():
        clock = local.time()
        inside = start <= clock < end if start < end else clock >= start or clock < end
        assert bool(until) is inside
    if until:
        assert now < until <= now + 25.5 * 3600
        assert all(hours.find_end(now + (until - now) * part, zone) == until for part in (0.25, 0.5, 0.99))


def test_quiet_hours_of_a_machine_without_a_set_zone() -> None:
    now = datetime(2026, 11, 16, 23, 0).timestamp()
    assert hold_until("22:00-07:00", "", now) == datetime(2026, 11, 17, 7, 0).timestamp()
    assert hold_until("", "", now) == 0.0


@pytest.mark.parametrize("text", ["", "22-7", "25:00-07:00", "22:00", "22:60-07:00", "night", "07:00-07:00", "x" * 500])
def test_what_are_no_quiet_hours_is_said(text: str) -> None:
    with pytest.raises(HermesError) as told:
        read_quiet(text)
    assert len(str(told.value)) < 200


@pytest.mark.parametrize("name", ["europe/berlin", "Europe/Berlin", " America/new york"])
def test_a_zone_is_found_in_any_case(name: str) -> None:
    assert str(find_zone(name)) in ("Europe/Berlin", "America/New_York")


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("Europe/Berlinn", "Europe/Berlin"),
        ("berlin", "Europe/Berlin"),
        ("Europe", "Europe/"),
        ("../../etc/passwd", "such as"),
        ("", "such as"),
    ],
)
def test_what_is_no_zone_is_said(name: str, hint: str) -> None:
    with pytest.raises(HermesError, match=hint):
        find_zone(name)


def test_a_machine_without_time_zones_says_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    """The list is a package of its own; what was set before holds by the machine's own zone then."""

    def find_none(name: str) -> zoneinfo.ZoneInfo:
        raise zoneinfo.ZoneInfoNotFoundError(name)

    monkeypatch.setattr(zoneinfo, "ZoneInfo", find_none)
    monkeypatch.setattr(zoneinfo, "available_timezones", set)
    with pytest.raises(HermesError, match="pip install tzdata"):
        find_zone("Europe/Berlin")
    assert zone_or_own("Europe/Berlin") is None
