"""What people say on IRC: a line becomes a message, or a note on why it is none. Pure.

Who speaks is the services account that the server has put on the line. A nick is for eyes only."""

import re
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime

from gateway.platforms.irc import SPEC
from gateway.platforms.irc.connection.irc_line import IrcLine, find_name, fold
from hermes_base.inbound import Address, Inbound

LOCAL_ID = "local-"  # begins the id of a message that the server gave none
CTCP = "\x01"
_COLOURS = re.compile(r"\x03(?:[0-9]{1,2}(?:,[0-9]{1,2})?)?|\x04(?:[0-9A-Fa-f]{6}(?:,[0-9A-Fa-f]{6})?)?")
_CONTROL = re.compile(r"[\x00-\x08\x0a-\x1f\x7f]")
_BOT_TAGS = frozenset({"bot", "draft/bot", "inspircd.org/bot", "inspircd.org/service"})
_REPLY_TAGS = ("+reply", "+draft/reply")


@dataclass(frozen=True, slots=True)
class IrcSelf:
    """Who we are there."""

    account: str  # its name in the settings
    nick: str
    mapping: str = "ascii"
    status_signs: str = "@+"  # before a channel: only some of its people are spoken to

    def is_me(self, nick: str) -> bool:
        return fold(nick, self.mapping) == fold(self.nick, self.mapping)


@dataclass(frozen=True, slots=True)
class Remembered:
    """What was said under an id, for whoever replies to it."""

    nick: str
    text: str
    own: bool = False


@dataclass(frozen=True, slots=True)
class Unidentified:
    """Somebody wrote to us who is not logged in."""

    source: str


@dataclass(frozen=True, slots=True)
class ClientQuestion:
    """A question of a client to ours (CTCP)."""

    nick: str
    kind: str
    words: str


@dataclass(frozen=True, slots=True)
class Unheard:
    """Nothing for us, and why."""

    reason: str


MessageRead = Inbound | Unidentified | ClientQuestion | Unheard


def read_message(
    line: IrcLine, me: IrcSelf, local_id: str, recall: Callable[[str], Remembered | None] = lambda _: None
) -> MessageRead:
    """What a PRIVMSG says. `local_id` is its id where the server gives none."""
    target, words = line.param(0), line.param(1)
    if me.is_me(line.nick):
        return Unheard("our own words")
    if "!" not in line.source or not _BOT_TAGS.isdisjoint(line.tags):
        return Unheard("no person wrote it")
    direct = me.is_me(target)
    if not direct and (target[:1] in me.status_signs or target[:1] not in "#&+!"):
        return Unheard("for some people of a channel, or for somebody else")
    acting = ""
    if words.startswith(CTCP):
        kind, _, rest = words.strip(CTCP).partition(" ")
        if kind.upper() != "ACTION":
            return ClientQuestion(line.nick, kind.upper(), rest) if direct else Unheard("a question to all clients")
        acting, words = f"* {line.nick} ", rest
    account = line.tags.get("account", "")
    if not account or account in ("*", "0"):
        return Unidentified(line.source) if direct else Unheard("its writer is not logged in")
    text, named = _read_call(strip_marks(words), me)
    if not text.strip():
        return Unheard("nothing but a name")
    replied_to = next((line.tags[tag] for tag in _REPLY_TAGS if line.tags.get(tag)), "")
    replied = recall(replied_to)
    return Inbound(
        Address(SPEC.name, me.account, account if direct else fold(target, me.mapping), "dm" if direct else "group"),
        line.tags.get("msgid") or local_id,
        account,
        acting + text,
        sender_name=line.nick,
        mentioned=named or bool(replied and replied.own),
        reply_to=replied_to,
        quote=replied.text if replied else "",
        received=read_time(line.tags.get("time", "")),
    )


def _read_call(text: str, me: IrcSelf) -> tuple[str, bool]:
    """The text without our name and a colon before it, and whether it names us."""
    folded, name = fold(text, me.mapping), find_name(me.nick, me.mapping)
    called = re.match(rf"@?{name.pattern}\s*[:,]\s*", folded)
    if called:
        return text[called.end() :], True
    return text, bool(name.search(folded))


def strip_marks(text: str) -> str:
    """The text without colours, bold and the like."""
    return _CONTROL.sub("", _COLOURS.sub("", text))


def read_time(stamp: str) -> float:
    """A `server-time`; 0.0: none that can be read."""
    try:
        return datetime.fromisoformat(stamp.replace("Z", "+00:00")).timestamp()
    except ValueError:
        return 0.0


def pick_missed(lines: list[IrcLine], last: str, *, asked: bool) -> list[IrcLine]:
    """Of a history those lines that came after the last one that we know. What a server shows by itself, and we never
    were there for, is not for us."""
    known = [index for index, line in enumerate(lines) if line.tags.get("msgid") == last and last]
    if known:
        return lines[known[-1] + 1 :]
    return lines if asked else []
