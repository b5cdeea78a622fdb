"""What a check of `hermes doctor` has found."""

from dataclasses import dataclass

OK, INFO, WARN, FAIL = "ok", "info", "warn", "fail"


@dataclass(frozen=True, slots=True)
class DoctorFinding:
    level: str
    what: str
    fix: str = ""
