"""The page itself: one HTML file for every path of it, static files under an address that changes with them, and the
login."""

import asyncio
import gzip
import hashlib
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route

from gateway.http.calls import Refusal, guarded

STATIC = Path(__file__).parent / "static"
PAGES = ("/", "/c/{session}", "/status", "/settings", "/setup")
LOOK_SECONDS = 2.0
MOST_GZIPPED = 2 * 1024 * 1024
FOR_EVER = "public, max-age=31536000, immutable"
ASK_AGAIN = "no-cache"  # kept, but compared with ours at each use

TYPES: Mapping[str, str] = {
    ".html": "text/html; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".svg": "image/svg+xml",
    ".json": "application/json",
    ".webmanifest": "application/manifest+json",
    ".png": "image/png",
    ".woff2": "font/woff2",
}
_PLAIN = "text/plain; charset=utf-8"
_PACKED = frozenset({".png", ".woff2"})  # packed already

_FORM = """<form id="login" method="post" action="/web/login">
<label for="password">Password</label>
<input id="password" name="password" type="password" autocomplete="current-password" required autofocus>
<button type="submit">Log in</button>
<p id="problem" role="alert">{problem}</p>
</form>"""
_SENTENCE = """<p id="problem">{problem}</p>
<p>To open this page, use the address that <code>hermes web</code> prints on the machine that runs Hermes.</p>"""
_MISSING = """<p>There is no such page.</p>
<p><a href="/">Go to your conversations</a></p>"""
_LOGIN_SCRIPT = '<script type="module" src="/static/login/login.js"></script>'
#: A page without the program: title, script, body.
_SMALL = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<title>Hermes: {title}</title>
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<link rel="icon" href="/static/icon.svg" type="image/svg+xml">
<link rel="stylesheet" href="/static/login/login.css">
{script}
</head>
<body><main><h1>Hermes</h1>
{body}
</main></body>
</html>
"""


@dataclass(frozen=True, slots=True)
class Packed:
    """A static file, ready to be sent."""

    stamp: int
    plain: bytes
    gzipped: bytes  # empty: packing it gains nothing

    @property
    def tag(self) -> str:
        return f'"{hashlib.sha256(self.plain).hexdigest()[:20]}"'


class PageRoutes:
    def __init__(self, folder: Path = STATIC) -> None:
        self._folder = folder.resolve()
        self._packed: dict[Path, Packed] = {}
        self._version, self._looked = "", -LOOK_SECONDS

    def list(self) -> Sequence[BaseRoute]:
        pages = [Route(path, guarded(self.show), methods=["GET"]) for path in PAGES]
        static = Route("/static/{path:path}", guarded(self.give), methods=["GET"])
        return [*pages, static, Route("/favicon.ico", guarded(self.give_icon), methods=["GET"])]

    async def show(self, request: Request) -> Response:
        """The page, with addresses of its files that no browser has kept an older content of."""
        version = await self._name_version()
        packed = await self._read("index.html")
        body = packed.plain.replace(b'"/static/', f'"/static/{version}/'.encode())
        gzipped = gzip.compress(body, 6)
        return _answer(request, Packed(0, body, gzipped), ".html", "no-store")

    async def give(self, request: Request) -> Response:
        path = str(request.path_params["path"])
        version, _, rest = path.partition("/")
        current = await self._name_version()
        if version.startswith("v-") and rest:
            path = rest
        packed = await self._read(path)
        keep = FOR_EVER if version == current else ASK_AGAIN
        return _answer(request, packed, Path(path).suffix.lower(), keep)

    async def give_icon(self, request: Request) -> Response:
        return _answer(request, await self._read("icon.svg"), ".svg", ASK_AGAIN)

    async def _name_version(self) -> str:
        """Looked at now and then: a page asks for forty files at once."""
        if time.monotonic() - self._looked >= LOOK_SECONDS:
            self._version, self._looked = await asyncio.to_thread(name_version, self._folder), time.monotonic()
        return self._version

    async def _read(self, name: str) -> Packed:
        return await asyncio.to_thread(self._load, name)

    def _load(self, name: str) -> Packed:
        """A file below the folder, packed once."""
        try:
            path = (self._folder / name).resolve()
            is_ours = path.is_relative_to(self._folder) and path.is_file()
        except (OSError, ValueError):  # a name that no file could have
            is_ours = False
        if not is_ours:
            raise Refusal(404, "not_there", "There is no such file.")
        stamp = path.stat().st_mtime_ns
        known = self._packed.get(path)
        if known is not None and known.stamp == stamp:
            return known
        plain = path.read_bytes()
        packs = path.suffix.lower() not in _PACKED and len(plain) < MOST_GZIPPED
        packed = Packed(stamp, plain, gzip.compress(plain, 9) if packs else b"")
        if packs:
            self._packed[path] = packed
        return packed


def name_version(folder: Path) -> str:
    """A name for the static files as they are now."""
    stats = ((path, path.stat()) for path in sorted(folder.rglob("*")) if path.is_file())
    listed = "\n".join(f"{path.relative_to(folder)} {stat.st_size} {stat.st_mtime_ns}" for path, stat in stats)
    return f"v-{hashlib.sha256(listed.encode()).hexdigest()[:12]}"


def _answer(request: Request, packed: Packed, suffix: str, keep: str) -> Response:
    headers = {"cache-control": keep, "vary": "Accept-Encoding"}
    if keep != "no-store":
        headers["etag"] = packed.tag
        if request.headers.get("if-none-match") == packed.tag:
            return Response(status_code=304, headers=headers)
    body = packed.plain
    if packed.gzipped and "gzip" in request.headers.get("accept-encoding", ""):
        headers["content-encoding"] = "gzip"
        body = packed.gzipped
    return Response(body, headers=headers, media_type=TYPES.get(suffix, _PLAIN))


def answer_login(status: int, *, takes_password: bool, problem: str = "") -> Response:
    """The small page that those see who may not see more."""
    body = (_FORM if takes_password else _SENTENCE).format(problem=escape(problem))
    return _answer_small(status, "log in", body, _LOGIN_SCRIPT)


def answer_missing() -> Response:
    """What a person sees at an address that is none of ours, with a way back."""
    return _answer_small(404, "no such page", _MISSING)


def _answer_small(status: int, title: str, body: str, script: str = "") -> Response:
    page = _SMALL.format(title=title, body=body, script=script)
    return Response(page, status, {"cache-control": "no-store"}, TYPES[".html"])
