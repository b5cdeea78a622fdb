"""Timed jobs, as plugins make and change them: kept in `cron/jobs.json` of the home. Nothing runs them yet, and whoever
asks for one to be run is told so."""

import json
import uuid
from collections.abc import Callable, Mapping
from datetime import datetime
from pathlib import Path
from typing import Any, TypeVar

from cron.schedule import ONCE, find_next, read_schedule
from hermes_base.errors import ConfigProblem
from hermes_cli.config.own_files import hold_folder, read_text, replace_file
from hermes_constants import get_hermes_home

FOLDER, FILE = "cron", "jobs.json"
NOT_RUN = "The job is kept, and was not run: nothing here runs timed jobs yet."
SCHEDULED, PAUSED = "scheduled", "paused"
#: What a job is known by, and what happened to it: not for callers to change.
_OWN = frozenset({"id", "created_at", "last_run_at"})

Job = dict[str, Any]
T = TypeVar("T")


def parse_schedule(schedule: str) -> dict[str, Any]:
    """`kind` (once, interval, cron) with `run_at`, `minutes` or `expr`, and `display`; ValueError for anything else."""
    return read_schedule(schedule, _now())


def create_job(
    prompt: str,
    schedule: str,
    name: str | None = None,
    repeat: int | None = None,
    deliver: str | None = None,
    origin: Mapping[str, Any] | None = None,
    skill: str | None = None,
    skills: list[str] | None = None,
    model: str | None = None,
    provider: str | None = None,
    base_url: str | None = None,
    script: str | None = None,
    context_from: Any = None,
    enabled_toolsets: list[str] | None = None,
    workdir: str | None = None,
    no_agent: bool = False,
    attach_to_session: Any = None,
) -> Job:
    """Keep a new job; ValueError for a time that nobody can read."""
    planned, every = parse_schedule(schedule), list(skills or ([skill] if skill else []))
    due = find_next(planned, _now())
    job: Job = {
        "id": uuid.uuid4().hex[:12],
        "name": name or " ".join(prompt.split())[:50] or "job",
        "prompt": prompt,
        "skills": every,
        "skill": every[0] if every else None,
        "model": model,
        "provider": provider,
        "base_url": base_url,
        "script": script,
        "context_from": context_from,
        "enabled_toolsets": enabled_toolsets,
        "workdir": workdir,
        "no_agent": no_agent,
        "attach_to_session": attach_to_session,
        "schedule": planned,
        "schedule_display": planned["display"],
        "repeat": {"times": repeat or (1 if planned["kind"] == ONCE else None), "completed": 0},
        "enabled": True,
        "state": SCHEDULED,
        "paused_at": None,
        "paused_reason": None,
        "created_at": _now().isoformat(),
        "next_run_at": due and due.isoformat(),
        "last_run_at": None,
        "deliver": deliver or ("origin" if origin else "local"),
        "origin": dict(origin) if origin else None,
    }
    _change_jobs(lambda jobs: jobs.append(job))
    return job


def load_jobs() -> list[Job]:
    """All of them, as the file has them; ConfigProblem for a file that is none of ours."""
    return _read_jobs(_find_file())


def list_jobs(include_disabled: bool = False) -> list[Job]:
    return [job for job in load_jobs() if include_disabled or job.get("enabled", True)]


def get_job(job_id: str) -> Job | None:
    return next((job for job in load_jobs() if job["id"] == job_id), None)


def update_job(job_id: str, updates: Mapping[str, Any]) -> Job | None:
    """Change what a job says; a schedule may be written as for a new one. None: there is no such job."""
    new = {name: value for name, value in updates.items() if name not in _OWN}
    if isinstance(new.get("schedule"), str):
        new["schedule"] = parse_schedule(new["schedule"])
    if "schedule" in new:
        due = find_next(new["schedule"], _now())
        new |= {"schedule_display": new["schedule"].get("display", ""), "next_run_at": due and due.isoformat()}
    if "skills" in new or "skill" in new:
        every = list(new.get("skills") or ([new["skill"]] if new.get("skill") else []))
        new |= {"skills": every, "skill": every[0] if every else None}
    return _change_one(job_id, lambda job: job.update(new))


def pause_job(job_id: str, reason: str | None = None) -> Job | None:
    paused = {"enabled": False, "state": PAUSED, "paused_at": _now().isoformat(), "paused_reason": reason}
    return _change_one(job_id, lambda job: job.update(paused))


def resume_job(job_id: str) -> Job | None:
    """It is due again from now on."""

    def resume(job: Job) -> None:
        last = job.get("last_run_at")
        due = find_next(job["schedule"], _now(), datetime.fromisoformat(last) if last else None)
        job.update(enabled=True, state=SCHEDULED, paused_at=None, paused_reason=None)
        job["next_run_at"] = due and due.isoformat()

    return _change_one(job_id, resume)


def trigger_job(job_id: str) -> Job | None:
    """Have it due at once. What comes back says in `note` that nothing runs it."""
    due = {"enabled": True, "state": SCHEDULED, "paused_at": None, "paused_reason": None}
    job = _change_one(job_id, lambda job: job.update(due, next_run_at=_now().isoformat()))
    return None if job is None else {**job, "note": NOT_RUN}


def remove_job(job_id: str) -> bool:
    """Whether it was there."""

    def remove(jobs: list[Job]) -> bool:
        kept = [job for job in jobs if job["id"] != job_id]
        was_there, jobs[:] = len(kept) < len(jobs), kept
        return was_there

    return _change_jobs(remove)


def __getattr__(name: str) -> Path:
    """Where the results of jobs would be: in the home of the moment."""
    if name == "OUTPUT_DIR":
        return get_hermes_home() / FOLDER / "output"
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


# --- the file


def _change_one(job_id: str, change: Callable[[Job], None]) -> Job | None:
    def find_and_change(jobs: list[Job]) -> Job | None:
        job = next((job for job in jobs if job["id"] == job_id), None)
        if job is not None:
            change(job)
        return job

    return _change_jobs(find_and_change)


def _change_jobs(change: Callable[[list[Job]], T]) -> T:
    """One writer at a time, and the whole file or none of it; what `change` answers."""
    path = _find_file()
    with hold_folder(path.parent):
        jobs = _read_jobs(path)
        before = json.dumps(jobs)
        answer = change(jobs)
        if json.dumps(jobs) != before:
            replace_file(path, json.dumps({"jobs": jobs, "updated_at": _now().isoformat()}, indent=2) + "\n")
    return answer


def _read_jobs(path: Path) -> list[Job]:
    try:
        jobs = json.loads(read_text(path) or '{"jobs": []}')["jobs"]
        if all(isinstance(job["id"], str) and isinstance(job["schedule"]["kind"], str) for job in jobs):
            return list(jobs)
    except (ValueError, TypeError, KeyError):
        pass  # told below, in one sentence for all of it
    raise ConfigProblem(
        f"{path} does not hold timed jobs.", kept="It is as it was.", fix="Correct it, or move it away."
    )


def _find_file() -> Path:
    return get_hermes_home() / FOLDER / FILE


def _now() -> datetime:
    return datetime.now().astimezone()
