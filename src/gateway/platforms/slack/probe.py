"""Asks Slack whose token it is, for whoever sets the app up and for whoever connects it."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gateway.platforms.id_forms import refuse_own
from gateway.platforms.slack import SPEC
from gateway.platforms.slack.link import SlackLink, open_link, read_keys
from gateway.platforms.slack.refusals import (
    BAD_APP_TOKEN,
    BAD_APP_TOKEN_FIX,
    BAD_TOKEN,
    BAD_TOKEN_FIX,
    SOCKET_OFF,
    SOCKET_OFF_FIX,
    WANTED_SCOPES,
    SlackTrouble,
    SlackTroubleKind,
    as_failure,
    list_missing,
    say_scope,
)
from gateway.platforms.slack.wire_out import SlackCall
from hermes_base.errors import ConfigProblem, DeliveryFailure

SOCKET, HTTP = "socket", "http"


@dataclass(frozen=True, slots=True)
class SlackIdentity:
    """Which app it is; without `scopes` Slack did not tell them."""

    user: str
    name: str
    team: str
    team_name: str = ""
    scopes: tuple[str, ...] = ()


async def probe(settings: Mapping[str, Any], home: Path) -> str:
    """Which app it is, in a sentence; ConfigProblem when that cannot be found out."""
    del home
    mode = read_mode(settings)
    keys = read_keys(settings, needs_app=mode == SOCKET)
    read_secret(settings, mode)
    link = await open_link(keys)
    try:
        found = await ask_identity(link)
        if mode == SOCKET:
            await _try_app_token(link)
    except DeliveryFailure as problem:
        raise ConfigProblem(f"{problem}", fix="Check the network, and try again.") from None
    finally:
        await link.close()
    needed, _ = list_missing(found.scopes) if found.scopes else ([], [])
    if needed:
        raise ConfigProblem(say_scope(needed[0]))
    refuse_own(SPEC.person_ids, settings, found.user)
    return describe_app(found)


def describe_app(found: SlackIdentity) -> str:
    _, wanted = list_missing(found.scopes) if found.scopes else ([], [])
    lacks = "; ".join(f"{WANTED_SCOPES[scope]} only with the scope {scope}" for scope in wanted)
    return f"It is @{found.name} in {found.team_name or found.team}" + (f"; it {lacks}." if lacks else ".")


def read_mode(settings: Mapping[str, Any]) -> str:
    mode = str(settings.get("mode") or SOCKET)
    if mode not in (SOCKET, HTTP):
        raise ConfigProblem(f"platforms.slack.mode is '{mode}'.", fix=f"It is {SOCKET} or {HTTP}; take one of them.")
    return mode


def read_secret(settings: Mapping[str, Any], mode: str) -> str:
    """The signing secret, which only requests need."""
    secret = str(settings.get("signing_secret") or "").strip()
    if mode == HTTP and not secret:
        raise ConfigProblem(
            "Slack's requests cannot be checked without the signing secret.",
            fix="Copy it from the app's page Basic Information and run `hermes setup slack`, or use mode socket.",
        )
    return secret


async def ask_identity(link: SlackLink) -> SlackIdentity:
    """Who we are there; ConfigProblem when Slack does not know the token, DeliveryFailure when it cannot be asked."""
    try:
        answer, headers = await link.ask(SlackCall("auth.test", {}, form=True))
    except SlackTrouble as trouble:
        if trouble.kind in (SlackTroubleKind.TOKEN, SlackTroubleKind.SCOPE):
            raise ConfigProblem(BAD_TOKEN, fix=BAD_TOKEN_FIX) from None
        raise as_failure(trouble) from None
    scopes = (scope.strip() for scope in headers.get("x-oauth-scopes", "").split(","))
    user, name, team, called = (str(answer.get(field) or "") for field in ("user_id", "user", "team_id", "team"))
    return SlackIdentity(user, name, team, called, tuple(filter(None, scopes)))


async def _try_app_token(link: SlackLink) -> None:
    try:
        await link.call(SlackCall("apps.connections.open", {}, form=True), as_app=True)
    except SlackTrouble as trouble:
        if trouble.kind in (SlackTroubleKind.TOKEN, SlackTroubleKind.SCOPE):
            raise ConfigProblem(BAD_APP_TOKEN, fix=BAD_APP_TOKEN_FIX) from None
        if trouble.kind is SlackTroubleKind.REFUSED:
            raise ConfigProblem(SOCKET_OFF, fix=SOCKET_OFF_FIX) from None
        raise as_failure(trouble) from None
