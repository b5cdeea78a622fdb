"""What adapters of plugins do with texts: cut them, find files and pictures in them, count them as their app does."""

import os
import re
import tempfile
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from urllib.parse import urlsplit
from urllib.request import getproxies

from gateway.platforms.plugin_bridge.media_cache import FOLDER
from gateway.platforms.plugin_bridge.messages import DOCUMENT_MARK, MEDIA_MARK, VOICE_MARK
from hermes_constants import get_hermes_home
from hermes_constants.ordinary_files import expand_home

Measure = Callable[[str], int]
_MARKDOWN_IMAGE = re.compile(r"!\[(?P<alt>[^\]\n]*)\]\((?P<url>https?://[^\s)]+)\)")
_TAG_IMAGE = re.compile(r"<img\s[^>]*?src=[\"'](?P<url>https?://[^\"']+)[\"'][^>]*>", re.IGNORECASE)
_LOCAL_FILE = re.compile(
    r"(?<![\w/:.`~])(?:~/|/)[^\s`'\"<>|*?]+\.(?:png|jpe?g|gif|webp|mp4|mov|webm|mp3|ogg|wav|m4a|flac|opus|pdf|docx?|xlsx?"
    r"|pptx?|csv|txt|md|zip|json)(?![\w/])",
    re.IGNORECASE,
)
_FENCE = re.compile(r"^\s*```(?P<language>[^\n`]*)", re.MULTILINE)
_PROXIES = ("HTTPS_PROXY", "HTTP_PROXY", "ALL_PROXY")
#: Folders whose files a plugin may hand over: what it received, and what the house and its people made.
_ROOTS = (FOLDER, "outbox", "uploads", "shown", "workspace", "people")


def utf16_len(text: str) -> int:
    """In units of UTF-16, as some apps count."""
    return len(text) + sum(ord(char) > 0xFFFF for char in text)


def truncate_message(content: str, max_length: int = 4096, len_fn: Measure | None = None) -> list[str]:
    """The messages that a text becomes. Several are numbered; a block of code is closed and opened again."""
    measure = len_fn or len
    if measure(content) <= max_length:
        return [content]
    room = max(1, max_length - len(" (999/999)"))
    pieces, rest, opening = [], content, ""
    while rest:
        whole = opening + rest
        if measure(whole) <= room:
            pieces.append(whole)
            break
        taken = _cut_at(whole, room - len("\n```"), measure, least=len(opening) + 1)
        piece, rest = whole[:taken].rstrip("\n"), whole[taken:].lstrip("\n")
        language = _find_open_fence(piece)
        opening = "" if language is None else f"```{language}\n"
        pieces.append(piece if language is None else f"{piece}\n```")
    return [f"{piece} ({number}/{len(pieces)})" for number, piece in enumerate(pieces, 1)]


def _cut_at(text: str, room: int, measure: Measure, least: int) -> int:
    """Where a piece ends: after a line, else after a word, else in the middle of one."""
    low, high = least, len(text)
    while low < high:  # the longest beginning that fits
        middle = (low + high + 1) // 2
        low, high = (middle, high) if measure(text[:middle]) <= room else (low, middle - 1)
    for sign in ("\n", " "):
        found = text.rfind(sign, least, low)
        if found > low // 2:
            return found + 1
    return low


def _find_open_fence(text: str) -> str | None:
    fences = list(_FENCE.finditer(text))
    return fences[-1]["language"].strip() if len(fences) % 2 else None


def extract_media(content: str) -> tuple[list[tuple[str, bool]], str]:
    """The files that a text names with `MEDIA:`, each with whether it is meant to be a voice message, and the rest."""
    is_voice = VOICE_MARK in content
    rest = content.replace(VOICE_MARK, "").replace(DOCUMENT_MARK, "")
    found = []
    for mark in MEDIA_MARK.finditer(rest):
        path = (mark["quoted"] or mark["ticked"] or mark["bare"] or "").strip().rstrip(",.;:`\"'")
        found.append((expand_home(path), is_voice))
    return found, _tidy(MEDIA_MARK.sub("", rest)) if found or is_voice else rest


def extract_images(content: str) -> tuple[list[tuple[str, str]], str]:
    """Pictures of the web in a text, each with its description, and the rest."""
    found = [(image["url"], image["alt"]) for image in _MARKDOWN_IMAGE.finditer(content)]
    found += [(image["url"], "") for image in _TAG_IMAGE.finditer(content)]
    rest = _TAG_IMAGE.sub("", _MARKDOWN_IMAGE.sub("", content))
    return found, _tidy(rest) if found else content


def extract_local_files(content: str) -> tuple[list[str], str]:
    """Files of this machine that a text names outside of code, and the rest."""
    code = [(block.start(), block.end()) for block in re.finditer(r"```.*?```|`[^`\n]+`", content, re.DOTALL)]
    found = []
    for named in _LOCAL_FILE.finditer(content):
        path = expand_home(named[0])
        if not any(start <= named.start() < end for start, end in code) and os.path.isfile(path):
            found.append((named[0], path))
    rest = content
    for written, _ in found:
        rest = rest.replace(written, "")
    return list(dict.fromkeys(path for _, path in found)), _tidy(rest) if found else content


def validate_media_delivery_path(path: str) -> str | None:
    """The file without links, if it is one that may be sent (G7): one that was received, or of somebody's work."""
    home = get_hermes_home().resolve()
    return _find_below(path, [home / name for name in _ROOTS])


def find_temporary(path: str) -> str | None:
    """The file without links, if it is a temporary one outside of the home: what authors send in their own tests."""
    found, home = _find_below(path, [Path(tempfile.gettempdir()).resolve()]), get_hermes_home().resolve()
    return None if found is None or Path(found).is_relative_to(home) else found


def _find_below(path: str, roots: Iterable[Path]) -> str | None:
    try:
        real = Path(expand_home(str(path))).resolve(strict=True)
    except (OSError, ValueError, RuntimeError):
        return None
    return str(real) if real.is_file() and any(real.is_relative_to(root) for root in roots) else None


def resolve_proxy_url(
    platform_env_var: str | None = None, *, target_hosts: Iterable[str] | str | None = None
) -> str | None:
    """The proxy that the environment names: the platform's own variable first; none for hosts that need none."""
    own = os.environ.get(platform_env_var, "").strip() if platform_env_var else ""
    if own:
        return own
    hosts = [target_hosts] if isinstance(target_hosts, str) else list(target_hosts or ())
    if hosts and all(_is_direct(host, os.environ) for host in hosts):
        return None
    named = (os.environ.get(name, "") or os.environ.get(name.lower(), "") for name in _PROXIES)
    found = next((value.strip() for value in named if value.strip()), "") or getproxies().get("https", "")
    return (f"http://{found}" if found and not urlsplit(found).scheme else found) or None


def _is_direct(host: str, environ: Mapping[str, str]) -> bool:
    listed = (environ.get("NO_PROXY") or environ.get("no_proxy") or "").split(",")
    names = [name.strip().lstrip(".").lower() for name in listed if name.strip()]
    host = host.lower()
    return any(name == "*" or host == name or host.endswith(f".{name}") for name in names)


def _tidy(text: str) -> str:
    return re.sub(r"\n{3,}", "\n\n", re.sub(r"[ \t]+\n", "\n", text)).strip()
