"""Names of servers' tools as the model calls them: safe for every provider, and of one tool only. Pure.

A name follows from the server's and the tool's own names alone, so it is the same in every process, and no server that
is added later takes it over. Within the server's part an underscore is doubled: where a single one stands, it ends.
"""

import hashlib
import json
import re

from hermes_base.text.harmless import is_hidden

LONGEST = 64
HASH_CHARS = 8
LONGEST_SERVER = 24
LONGEST_TOOL = 128  # as a server calls it
_PLAIN_SERVER = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9_-]*[A-Za-z0-9])?")
_PLAIN_TOOL = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]*")
_ONE_WORD = re.compile(r"[A-Za-z0-9_./:-]+")
_ODD = re.compile(r"[^A-Za-z0-9-]+")


def is_readable(tool: object) -> bool:
    """Whether it can be the name of a tool: one line of some length, in which nothing is hidden."""
    fits = isinstance(tool, str) and 0 < len(tool) <= LONGEST_TOOL
    return fits and not any(char in "\n\t" or is_hidden(char) for char in str(tool))


def show_name(tool: str) -> str:
    """A server's own name of a tool among words of ours; one that could be taken for these stands in quotes."""
    return tool if _ONE_WORD.fullmatch(tool) else json.dumps(tool, ensure_ascii=False)


def make_name(server: str, tool: str) -> str:
    """`mcp_<server>_<tool>`; what cannot stand in a name, or is too long, is told apart by a hash."""
    prefix = f"mcp_{_write_server(server)}_"
    if _PLAIN_TOOL.fullmatch(tool) and len(prefix) + len(tool) <= LONGEST:
        return prefix + tool
    room = LONGEST - len(prefix) - HASH_CHARS - 1
    readable = _ODD.sub("_", tool).strip("_-")[:room].rstrip("_-") or "tool"
    return f"{prefix}{readable[:room]}_{_hash(server, tool)}"


def _write_server(server: str) -> str:
    doubled = server.replace("_", "__")
    if _PLAIN_SERVER.fullmatch(server) and len(doubled) <= LONGEST_SERVER:
        return doubled
    readable = _ODD.sub("-", server)[: LONGEST_SERVER - HASH_CHARS - 1].strip("-") or "server"
    return f"{readable}-{_hash(server)}"


def _hash(*words: str) -> str:
    return hashlib.sha256("\0".join(words).encode("utf-8", "surrogatepass")).hexdigest()[:HASH_CHARS]
