"""What the settings of a number mean. Pure; whatever is missing is a sentence."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit

from hermes_base.errors import ConfigProblem

GRAPH = "https://graph.facebook.com"
VERSION = "v25.0"
SHORTEST_WORD = 8
SET_UP = "Run `hermes setup whatsapp`."


@dataclass(frozen=True, slots=True)
class NumberSettings:
    """One number at WhatsApp, and what it is spoken for with."""

    number: str  # its id there
    token: str = field(repr=False)
    app_secret: str = field(repr=False)
    verify_token: str = field(repr=False)
    root: str = f"{GRAPH}/{VERSION}"  # of all calls, without a slash at its end

    @property
    def host(self) -> str:
        return urlsplit(self.root).hostname or ""


def read_number(given: Mapping[str, Any]) -> NumberSettings:
    """The settings of a number; ConfigProblem for what is missing or wrong."""
    number = _need(given, "phone_number_id", "WhatsApp has no phone number ID.")
    if not re.fullmatch(r"[0-9]{1,40}", number):
        raise ConfigProblem(
            "That is no phone number ID: one has digits only, and is not the number itself.",
            fix="The page `API Setup` of your app shows it below the number.",
        )
    token = _need(given, "token", "WhatsApp has no access token.")
    if not re.fullmatch(r"[!-~]+", token):
        raise ConfigProblem("That is no access token: it has blanks or foreign signs in it.", fix=SET_UP)
    secret = _need(given, "app_secret", "WhatsApp has no app secret, and without it anybody could speak to Hermes.")
    word = _need(given, "verify_token", "WhatsApp has no verify token.")
    if len(word) < SHORTEST_WORD:
        raise ConfigProblem(f"The verify token has fewer than {SHORTEST_WORD} signs.", fix=SET_UP)
    return NumberSettings(number, token, secret, word, _read_root(given))


def _need(given: Mapping[str, Any], name: str, missing: str) -> str:
    text = str(given.get(name) or "").strip()
    if not text:
        raise ConfigProblem(missing, fix=SET_UP)
    return text


def _read_root(given: Mapping[str, Any]) -> str:
    base = str(given.get("base_url") or GRAPH).strip().rstrip("/")
    parts = urlsplit(base)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise ConfigProblem(
            "platforms.whatsapp.base_url is no address.",
            fix="It begins with https:// and names a host; or leave it out.",
        )
    version = str(given.get("version") or VERSION).strip()
    if not re.fullmatch(r"v[0-9]{1,3}\.[0-9]{1,2}", version):
        raise ConfigProblem(
            f"platforms.whatsapp.version is '{version}'.", fix=f"Write it like {VERSION}, or leave it out."
        )
    return f"{base}/{version}"
