"""`hermes health`: asks the running gateway whether it lives, or would take a message now; for whatever watches it."""

import argparse
import http.client
import json
from contextlib import closing
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import urlsplit

from hermes_base.errors import ConfigProblem, HermesError
from hermes_base.settings import WebSettings
from hermes_cli import config
from hermes_cli.chat.local_client import call_owner
from hermes_constants import get_hermes_home

OK, NOT_WELL = 0, 1
SECONDS = 5.0
#: An address that listens everywhere is asked from inside.
_EVERYWHERE = {"0.0.0.0": "127.0.0.1", "::": "::1", "": "127.0.0.1"}


class HealthFinding(NamedTuple):
    well: bool
    words: str


def main(args: list[str]) -> int:
    parser = argparse.ArgumentParser("hermes health", description="Exit code 0 when the gateway is well, else 1.")
    parser.add_argument("--ready", action="store_true", help="whether it would take a message now")
    found = look(get_hermes_home(), ready=parser.parse_args(args).ready)
    print(found.words)
    return OK if found.well else NOT_WELL


def look(home: Path, *, ready: bool) -> HealthFinding:
    """What the gateway says of itself: over HTTP where it serves that, else over its socket."""
    path = "/ready" if ready else "/health"
    try:
        page = read_page_settings()
        # Without a port in the settings the gateway has chosen one, and knows it.
        if page and page.port and (found := ask(_EVERYWHERE.get(page.host, page.host), page.port, path)) is not None:
            return found
        place = find_place(home)
        if place is not None:
            silent = f"The gateway of {home} does not answer on port {place[1]}."
            return ask(*place, path) or HealthFinding(False, silent)
        if not ready:
            return HealthFinding(True, "ok")
        if page:
            return HealthFinding(False, "The gateway runs, and its web page is not served. Its log says why.")
        told = call_owner(home, "ready", {}, SECONDS)
    except HermesError as problem:
        return HealthFinding(False, str(problem))
    if told is None:
        return HealthFinding(False, f"No gateway runs in {home}.")
    return HealthFinding(not told["reason"], str(told["reason"] or "ready"))


def read_page_settings() -> WebSettings | None:
    """None without a page, and when they cannot be read: that changes nothing of what runs."""
    try:
        section = config.load_settings().web
    except ConfigProblem:
        return None
    return section if section.enabled else None


def find_place(home: Path) -> tuple[str, int] | None:
    """Where the running gateway serves; None: it answers, and serves no HTTP. HermesError when nobody answers."""
    status = call_owner(home, "status", {}, SECONDS)
    if status is None:
        raise HermesError(f"No gateway runs in {home}.")
    web: dict[str, Any] = status.get("web") or {}
    parts = urlsplit(str(web.get("address") or ""))
    host = parts.hostname or ""
    return (_EVERYWHERE.get(host, host), parts.port) if parts.port else None


def ask(host: str, port: int, path: str) -> HealthFinding | None:
    """What is answered there; None: nothing is."""
    try:
        with closing(http.client.HTTPConnection(host, port, timeout=SECONDS)) as connection:
            connection.request("GET", path)
            answer = connection.getresponse()
            return HealthFinding(answer.status == http.client.OK, _read_words(answer.read(10_000)))
    except (OSError, http.client.HTTPException):
        return None


def _read_words(body: bytes) -> str:
    """The sentence in an answer, whichever of our forms it has."""
    text = body.decode("utf-8", "replace").strip()
    try:
        told = json.loads(text)
    except ValueError:
        return text
    error = told.get("error") if isinstance(told, dict) else None
    named = error if isinstance(error, dict) else told if isinstance(told, dict) else {}
    return str(named.get("message") or named.get("reason") or named.get("status") or text)
