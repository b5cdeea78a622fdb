"""Sites that a person signed in to by hand: cookies and what pages keep, in one file for each person and site, 0600.

They are used for pages of that site alone, in a set of tabs of its own; other sites never get to see them.
"""

import json
import re
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from hermes_base.errors import ConfigProblem
from hermes_cli.config.own_files import hold_folder, replace_file
from hermes_constants import SIGN_INS_FOLDER
from hermes_constants.ordinary_files import read_file

OWNER = "owner"
#: How what is sent to such a site is dealt with: until a person has agreed, or not at all.
MOST_BYTES = 4_000_000
_SITE = re.compile(r"[a-z0-9-]+(\.[a-z0-9-]+)*")
_HTTP_ONLY = "#HttpOnly_"
_COOKIE_FIELDS = 7
_SAME_SITE = {"strict": "Strict", "lax": "Lax", "none": "None", "no_restriction": "None"}


@dataclass(frozen=True, slots=True)
class SignIn:
    """What is kept of a site: `state` as the driver writes and takes it."""

    site: str
    state: Mapping[str, Any]
    saved: float = 0.0


def read_site(given: str) -> str:
    """The name of a site, from a host or an address."""
    host = (urlsplit(given).hostname or "") if "://" in given else given
    site = host.strip().lower().rstrip(".").removeprefix("www.")
    if not _SITE.fullmatch(site):
        raise ConfigProblem(f"'{given}' is no site.", fix="Name it like mail.example.org.")
    return site


def covers(site: str, host: str) -> bool:
    """Whether a host belongs to a site."""
    host = host.lower().rstrip(".")
    return host == site or host.endswith(f".{site}")


def list_sign_ins(home: Path, person: str) -> list[SignIn]:
    found = (_load(path) for path in sorted(_folder(home, person).glob("*.json")))
    return [one for one in found if one is not None]


def find_sign_in(home: Path, person: str, host: str) -> SignIn | None:
    """What is kept for a host: of several sites the one that says most."""
    folder = _folder(home, person)
    names = sorted((path.stem for path in folder.glob("*.json") if covers(path.stem, host)), key=len)
    return _load(folder / f"{names[-1]}.json") if names else None


def keep_sign_in(home: Path, person: str, sign_in: SignIn) -> None:
    folder = _folder(home, person)
    text = json.dumps({"site": sign_in.site, "saved": time.time(), "state": dict(sign_in.state)})
    (home / SIGN_INS_FOLDER).mkdir(mode=0o700, parents=True, exist_ok=True)
    with hold_folder(folder):
        replace_file(folder / f"{sign_in.site}.json", text)


def forget_sign_in(home: Path, person: str, site: str) -> bool:
    """False: nothing was kept of it."""
    path = _folder(home, person) / f"{site}.json"
    if not path.exists():
        return False
    path.unlink()
    return True


def renew_cookies(home: Path, person: str, site: str, cookies: Sequence[Mapping[str, Any]]) -> None:
    """Sites change their cookies as one goes; without the newest a sign-in ends. What was forgotten stays forgotten."""
    known = _load(_folder(home, person) / f"{site}.json")
    if known is not None and known.state.get("cookies") != list(cookies):
        keep_sign_in(home, person, SignIn(site, {**known.state, "cookies": list(cookies)}))


def read_cookies(text: str, site: str) -> list[dict[str, Any]]:
    """The cookies of a site in a file that a browser exported: JSON, or lines as curl and wget write them."""
    try:
        rows = _read_json(text) if text.lstrip().startswith(("[", "{")) else _read_lines(text)
        return [
            row for row in rows if covers(site, row["domain"].lstrip(".")) or covers(row["domain"].lstrip("."), site)
        ]
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise ConfigProblem(
            "The file holds no cookies that can be read.",
            kept="Nothing was changed.",
            fix="Export them as cookies.txt (Netscape format) or as JSON.",
        ) from error


def _read_json(text: str) -> list[dict[str, Any]]:
    told = json.loads(text)
    rows = told["cookies"] if isinstance(told, dict) else told
    found = []
    for row in rows:
        same = _SAME_SITE.get(str(row.get("sameSite") or "").lower(), "Lax")
        expires = row.get("expires", row.get("expirationDate", -1))
        found.append(
            {
                "name": str(row["name"]),
                "value": str(row["value"]),
                "domain": str(row["domain"]),
                "path": str(row.get("path") or "/"),
                "expires": float(-1 if expires is None else expires),
                "httpOnly": bool(row.get("httpOnly")),
                "secure": bool(row.get("secure")) or same == "None",
                "sameSite": same,
            }
        )
    return found


def _read_lines(text: str) -> list[dict[str, Any]]:
    found = []
    for line in text.splitlines():
        http_only = line.startswith(_HTTP_ONLY)
        fields = line.removeprefix(_HTTP_ONLY).split("\t")
        if (line.startswith("#") and not http_only) or len(fields) != _COOKIE_FIELDS:
            continue
        domain, _, path, secure, expires, name, value = fields
        facts = {"name": name, "value": value, "domain": domain, "path": path, "expires": float(expires) or -1}
        found.append({**facts, "httpOnly": http_only, "secure": secure == "TRUE", "sameSite": "Lax"})
    return found


def _folder(home: Path, person: str) -> Path:
    return home / SIGN_INS_FOLDER / (re.sub(r"[^\w-]", "_", person) or OWNER)


def _load(path: Path) -> SignIn | None:
    """None: it is not there, or somebody damaged it."""
    try:
        told = json.loads(read_file(path, MOST_BYTES))
        return SignIn(str(told["site"]), dict(told["state"]), float(told["saved"]))
    except (OSError, ValueError, KeyError, TypeError):
        return None
