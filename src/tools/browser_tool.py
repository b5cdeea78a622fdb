"""The tool `browser`: pages as text with numbered elements, and what people do with them.

A task has its tabs until it ends; they outlive the agent. What is shown is foreign text and is noted with its host
(G9); files come and go through the same judgement as those of the file tools (G7).
"""

import base64
import logging
import mimetypes
import os
import threading
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

from hermes_base.errors import ToolFailure
from hermes_base.settings import Settings
from hermes_base.text.file_names import make_safe_name
from hermes_base.turn.tool_context import ToolContext
from hermes_constants import get_hermes_home
from tools.approval import ask_approval
from tools.browser.client import PageFailure, browser_client
from tools.browser.launching import find_missing
from tools.browser.sign_ins import find_sign_in, renew_cookies
from tools.files.file_changes import Rewrite
from tools.files.roots import SEND, WRITE, find_place, read_bytes
from tools.files.writing import FILE_BYTES, change_files, refuse_unknown
from tools.registry import make_schema, registry

log = logging.getLogger(__name__)

TOOLSET = "browser"
A_PAGE = "a web page"
PAGE_CHARS, GLANCE_CHARS, LEAST_CHARS = 20_000, 10_000, 2_000
ACTIONS = (
    *("open", "snapshot", "click", "type", "select", "press", "scroll", "back", "tabs", "screenshot", "download"),
    *("upload", "dialog", "wait"),
)
TEXT, NUMBER, YES_NO = {"type": "string"}, {"type": "integer"}, {"type": "boolean"}

SCHEMA = make_schema(
    "browser",
    "Use a web browser. Pages are shown as text; what can be used has a number, as in [7 button: Send].",
    ("action",),
    action={"type": "string", "enum": list(ACTIONS)},
    url=TEXT,
    element={"type": "integer", "description": "Its number."},
    text={
        "type": "string",
        "description": "To type (at the end \\n: Enter), select, press (Control+A), wait for, or answer; scroll: up.",
    },
    path={"type": "string", "description": "File to upload, or to download to."},
    offset={"type": "integer", "description": "Read on a long snapshot."},
    tab={"type": "integer", "description": "tabs: go there, or with close close it."},
    close=YES_NO,
    accept={"type": "boolean", "description": "Answer of dialog."},
)

_lock = threading.Lock()
_closers: dict[str, Callable[[], None]] = {}


def keep_browser(task_id: str, close: Callable[[], None]) -> None:
    """A browser was opened for a task; `close` ends it."""
    with _lock:
        _closers[task_id] = close


def cleanup_browser(task_id: str) -> None:
    """End the browser of a task, if it has one."""
    with _lock:
        close = _closers.pop(task_id, None)
    if close is not None:
        close()


def is_offered(settings: Settings) -> bool:
    """Whether an agent with these settings gets the tool."""
    return settings.browser.enabled and find_missing(settings.browser) is None


def use_browser(args: Mapping[str, Any], *, context: ToolContext) -> str | dict[str, Any]:
    """Do one thing in the task's browser, and show what is there then."""
    action = args.get("action")
    if action not in ACTIONS:
        raise ToolFailure(f"There is no action '{action}'.", fix=f"There are {', '.join(ACTIONS)}.")
    given, url = dict(args), str(args.get("url") or "")
    if any(context.redact(said) != said for said in (url, unquote(url))):
        raise ToolFailure("The address holds a secret of the configuration, so it was not opened; nothing was sent.")
    if action == "upload":
        given["file"] = _read_upload(context, args.get("path"))
    keep_browser(context.task, lambda: browser_client.close_task(context.task))
    order = {
        "args": given,
        "seconds": context.settings.browser.timeout,
        "chars": _room(context, str(action)),
        "sign_in": _find_sign_in(context, url),
    }
    try:
        result = browser_client.act(context.task, order, context.settings, context.cancel, partial(_ask, context))
    except PageFailure:
        context.foreign.note(A_PAGE)  # it may hold words of the page
        raise
    context.foreign.note(f"the web page {result['host']}" if result["host"] else A_PAGE)
    if "renewed" in result:
        renew_cookies(_home(context), context.person, result["renewed"]["site"], result["renewed"]["cookies"])
    if "file" in result:
        return _keep_download(context, result["file"], args.get("path"))
    if "image" in result:
        said = {"type": "text", "text": context.redact(result["text"])}
        url = f"data:image/jpeg;base64,{result['image']}"
        return {"_multimodal": True, "content": [said, {"type": "image_url", "image_url": {"url": url}}]}
    return str(context.redact(result["text"]))


def _find_sign_in(context: ToolContext, url: str) -> dict[str, Any] | None:
    """What is kept of the site that is opened, for the person whose turn it is."""
    try:
        host = urlsplit(url if "://" in url else f"//{url}").hostname or ""
    except ValueError:
        return None
    found = find_sign_in(_home(context), context.person, host) if host else None
    return {"site": found.site, "state": dict(found.state)} if found is not None else None


def _ask(context: ToolContext, what: str, why: str) -> bool:
    return bool(ask_approval(context, what, why, kind="confirmation"))


def _home(context: ToolContext) -> Path:
    return context.home or get_hermes_home()


def _room(context: ToolContext, action: str) -> int:
    """How much of a page is shown: less after an action than when it is asked for, and less in a small window (E9)."""
    most = PAGE_CHARS if action == "snapshot" else GLANCE_CHARS
    return max(LEAST_CHARS, min(most, context.window_tokens)) if context.window_tokens else most


def _read_upload(context: ToolContext, path: object) -> dict[str, str]:
    place = find_place(context, path, SEND)
    found = read_bytes(place, FILE_BYTES)
    if found is None:
        raise ToolFailure(f"There is no file {place.path}.")
    kind = mimetypes.guess_type(place.name)[0] or "application/octet-stream"
    return {"name": place.name, "path": str(place.path), "type": kind, "data": base64.b64encode(found.data).decode()}


def _keep_download(context: ToolContext, file: Mapping[str, str], path: object) -> str:
    """Into the working folder, under the name that was asked for, or the site's own."""
    data = base64.b64decode(file["data"])
    name = make_safe_name(file["name"])
    wanted = str(path or name)
    place = find_place(context, wanted, WRITE)
    if os.path.isdir(place.path):
        place = find_place(context, os.path.join(wanted, name), WRITE)

    def plan() -> list[Rewrite]:
        before = read_bytes(place, FILE_BYTES)
        if before is not None:
            refuse_unknown(context.task, place.path, before, fix="Name another path.")
        return [Rewrite(place, before, data)]

    change_files(context, plan)
    return f"Downloaded {place.path} ({len(data):,} bytes)."


registry.register("browser", TOOLSET, SCHEMA, use_browser, emoji="🌐")
