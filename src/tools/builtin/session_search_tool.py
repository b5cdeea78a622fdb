"""Finds what was said in earlier conversations, and shows it by session with its date."""

from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any

from hermes_base.errors import StoreFailure, ToolFailure
from hermes_base.text.foreign import EARLIER
from hermes_base.turn.tool_context import ToolContext
from tools.registry import make_schema, registry, tool_result

TOOLSET = "search"
DEFAULT_HITS = 20
MAX_HITS = 50
EXCERPT_CHARS = 600

SCHEMA = make_schema(
    "session_search",
    "Find what was said in earlier conversations: messages that hold all of these words, newest first.",
    ("words",),
    words={"type": "string"},
    limit={"type": "integer"},
)


def search_sessions(args: Mapping[str, Any], *, context: ToolContext) -> str:
    """The hits by session, each with who said it and when (G9)."""
    words = args.get("words") or args.get("query")  # what plugins call it
    if not isinstance(words, str) or not words.strip():
        raise ToolFailure("There are no words to search for.")
    if context.search is None:
        raise ToolFailure("Earlier conversations cannot be searched here: this conversation is not stored.")
    limit = args.get("limit")
    limit = min(limit, MAX_HITS) if isinstance(limit, int) and limit > 0 else DEFAULT_HITS
    try:
        hits = context.search(words, limit)
    except StoreFailure as problem:
        raise ToolFailure(str(problem)) from problem
    if not hits:
        return tool_result(sessions=[], note="Nothing was found. All words must occur; try fewer or other words.")
    if any(str(hit["session"]) != context.session for hit in hits):
        context.foreign.note(EARLIER)  # what was foreign there is foreign here (G9)
    sessions: dict[str, list[dict[str, Any]]] = {}  # in the order of their first hit
    for hit in hits:
        sessions.setdefault(str(hit["session"]), []).append(_show(hit, context.redact))
    return tool_result(
        sessions=[
            {"session": session, **({"current": True} if session == context.session else {}), "said": said}
            for session, said in sessions.items()
        ]
    )


def _show(hit: Mapping[str, Any], redact: Callable[[str], str]) -> dict[str, Any]:
    excerpt = redact(str(hit["excerpt"]))
    return {
        "when": datetime.fromtimestamp(float(hit["created"])).astimezone().strftime("%Y-%m-%d %H:%M"),
        "by": str(hit["role"]),
        "position": hit["position"],
        "excerpt": excerpt if len(excerpt) <= EXCERPT_CHARS else excerpt[: EXCERPT_CHARS - 1] + "…",
    }


registry.register("session_search", TOOLSET, SCHEMA, search_sessions, emoji="🔎")
