"""Who people are and under what a thread stands: looked up when it is needed, and kept for a while."""

import logging
from collections.abc import Mapping
from typing import Any, TypeVar

from gateway.platforms.slack.reading_back import Call
from gateway.platforms.slack.refusals import SlackTrouble, SlackTroubleKind, say_scope
from gateway.platforms.slack.wire import Around, Needs, ThreadRoot
from gateway.platforms.slack.wire_out import SlackCall
from hermes_base.inbound import Inbound

_log = logging.getLogger(__name__)
MOST_KEPT = 2000
MOST_TRIES = 5
K = TypeVar("K")
V = TypeVar("V")


class Acquaintances:
    def __init__(self, call: Call, glance: Call) -> None:
        """`glance`: for what can be done without; it fails where `call` would wait."""
        self._call = call
        self._glance = glance
        self._names: dict[str, str] = {}
        self._roots: dict[tuple[str, str], ThreadRoot] = {}
        self._told: dict[tuple[str, str], bool] = {}  # threads whose root went along with a message already
        self._may_ask = True
        self._failed: dict[tuple[str, str], int] = {}  # threads: how often in a row their root could not be had

    async def look_up(self, channel: str, needs: Needs) -> Around:
        """A name that cannot be had is none. Without its root a message may look as if it were not for us: a trouble
        that passes is raised, and the message waits, but not for ever: others stand behind it."""
        names = {user: await self._find_name(user) for user in needs.people}
        if not needs.thread:
            return Around(names)
        root = await self._find_root(channel, needs.thread)
        if root.user and root.user not in names:
            names[root.user] = await self._find_name(root.user)
        return Around(names, root, is_first=(channel, needs.thread) not in self._told)

    def note_heard(self, inbound: Inbound) -> None:
        """What stands above is known in this thread from now on."""
        if inbound.address.thread and (inbound.mentioned or inbound.address.kind == "dm"):
            _keep(self._told, (inbound.address.chat, inbound.address.thread), True)

    async def _find_name(self, user: str) -> str:
        if user in self._names or not self._may_ask:
            return self._names.get(user, "")
        try:
            answer = await self._glance(SlackCall("users.info", {"user": user}, form=True))
        except SlackTrouble as trouble:
            if trouble.kind is SlackTroubleKind.SCOPE:
                self._may_ask = False
                _log.warning("People have no names. %s", say_scope(trouble.needed))
            elif trouble.kind is SlackTroubleKind.REFUSED:
                _keep(self._names, user, "")
            return ""
        _keep(self._names, user, read_name(answer.get("user")))
        return self._names[user]

    async def _find_root(self, channel: str, thread: str) -> ThreadRoot:
        if (channel, thread) in self._roots:
            return self._roots[channel, thread]
        call = SlackCall("conversations.replies", {"channel": channel, "ts": thread, "limit": 1}, form=True)
        try:
            root = _read_root(await self._call(call), thread)
        except SlackTrouble as trouble:
            if trouble.kind not in (SlackTroubleKind.SCOPE, SlackTroubleKind.REFUSED):
                self._insist((channel, thread), trouble)
                return ThreadRoot()
            root = ThreadRoot()
        self._failed.pop((channel, thread), None)
        _keep(self._roots, (channel, thread), root)
        return root

    def _insist(self, place: tuple[str, str], trouble: SlackTrouble) -> None:
        """Raise a trouble that may pass, a few times for each message."""
        failed = self._failed.pop(place, 0) + 1
        if failed < MOST_TRIES or trouble.kind in (SlackTroubleKind.PENALTY, SlackTroubleKind.UNSENT):
            _keep(self._failed, place, failed)
            raise trouble
        _log.warning("What a thread in %s began with cannot be read: %s", place[0], trouble)


def _read_root(answer: Mapping[str, Any], thread: str) -> ThreadRoot:
    messages = answer.get("messages")
    first = messages[0] if isinstance(messages, list) and messages else None
    if not isinstance(first, Mapping) or first.get("ts") != thread:
        return ThreadRoot()
    return ThreadRoot(str(first.get("user") or ""), str(first.get("text") or ""))


def read_name(user: Any) -> str:
    """What people see; it identifies nobody."""
    if not isinstance(user, Mapping):
        return ""
    profile = user.get("profile")
    shown = [profile.get(name) for name in ("display_name", "real_name")] if isinstance(profile, Mapping) else []
    return next((" ".join(str(name).split()) for name in (*shown, user.get("real_name"), user.get("name")) if name), "")


def _keep(kept: dict[K, V], key: K, value: V) -> None:
    while len(kept) >= MOST_KEPT:
        del kept[next(iter(kept))]
    kept[key] = value
