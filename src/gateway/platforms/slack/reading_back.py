"""What stands in Slack already: messages of ours by their keys, so that nothing is sent twice (C7), and what people
said while nobody listened (C1)."""

import logging
import time
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from gateway.platforms.face import Part
from gateway.platforms.slack.refusals import SlackTrouble, SlackTroubleKind, say_scope
from gateway.platforms.slack.wire import is_ts
from gateway.platforms.slack.wire_out import SlackCall, make_history, read_key
from hermes_base.inbound import Address

_log = logging.getLogger(__name__)
PAGE = 200
MOST_PAGES = 10
MOST_KEYS = 5000
MOST_SKEW = 120.0  # seconds between Slack's clock and ours
#: Threads of an account that are read after an absence: so many, in which something was said last, in the last days.
MOST_THREADS, THREAD_DAYS = 40, 7
BUSY_SECONDS = 600.0

Call = Callable[[SlackCall], Awaitable[Mapping[str, Any]]]


async def read_messages(call: Call, channel: str, thread: str = "", oldest: str = "") -> list[Mapping[str, Any]]:
    """What was said in a chat or a thread after a moment, the oldest first. A chat is read from its newest message
    backwards, one page of it if there is no such moment."""
    found: list[Mapping[str, Any]] = []
    cursor = ""
    for _ in range(MOST_PAGES):
        answer = await call(make_history(channel, thread, oldest, cursor, PAGE))
        page = answer.get("messages")
        found += [one for one in page if isinstance(one, Mapping)] if isinstance(page, list) else []
        more = answer.get("response_metadata")
        cursor = str(more.get("next_cursor") or "") if isinstance(more, Mapping) else ""
        if not cursor or not (thread or oldest):
            break
    else:
        _log.warning("More was said in %s than is read at once; what is beyond is left out.", channel)
    after = float(oldest or 0)
    placed = ((str(one.get("ts") or ""), one) for one in found)
    return [one for ts, one in sorted(placed, key=lambda pair: pair[0]) if is_ts(ts) and float(ts) > after]


class SentKeys:
    """Which of our messages are in Slack. A place is read once, when it may hold what an earlier process sent, and
    again after a call that broke off."""

    def __init__(self, call: Call) -> None:
        self._call = call
        self._began = time.time()
        self._ids: dict[str, str] = {}
        self._read: set[Address] = set()
        self._doubted: set[Address] = set()

    async def find(self, part: Part) -> str:
        """The id of the message with this key; empty: there is none."""
        if part.key and part.key not in self._ids and self._has_to_read(part.address):
            await self._read_back(part.address)
        return self._ids.get(part.key, "") if part.key else ""

    def note(self, part: Part, ts: str) -> None:
        """It stands there under this id."""
        self._keep(part.key, ts)

    def doubt(self, address: Address) -> None:
        """Something was sent there, and nobody knows whether it arrived."""
        self._doubted.add(address)

    def _has_to_read(self, address: Address) -> bool:
        if address in self._doubted:
            return True
        is_new = is_ts(address.thread) and float(address.thread) > self._began + MOST_SKEW
        return not is_new and address not in self._read

    async def _read_back(self, address: Address) -> None:
        """A doubt that comes while it reads stays: what is read then may not have it yet."""
        self._doubted.discard(address)
        self._read.add(address)
        try:
            messages = await read_messages(self._call, address.chat, address.thread)
        except SlackTrouble as trouble:
            if trouble.kind not in (SlackTroubleKind.SCOPE, SlackTroubleKind.REFUSED):
                self._doubted.add(address)
                raise
            if trouble.kind is SlackTroubleKind.SCOPE:
                _log.warning("What was sent to %s cannot be read back. %s", address.chat, say_scope(trouble.needed))
            messages = []  # what cannot be read at all is sent; Slack says what is wrong with the place
        except BaseException:  # whoever sends has given up
            self._doubted.add(address)
            raise
        for message in messages:
            self._keep(read_key(message), str(message["ts"]))

    def _keep(self, key: str, ts: str) -> None:
        if not key:
            return
        while len(self._ids) >= MOST_KEYS:
            del self._ids[next(iter(self._ids))]
        self._ids[key] = ts


# --- after an absence


@dataclass(frozen=True, slots=True)
class ChatReading:
    """From where on a chat is read: itself, and threads of it. Empty: it is not."""

    channel: str
    kind: str
    since: str = ""
    threads: tuple[tuple[str, str], ...] = ()


def keep_busy(last: Mapping[Address, str], now: float) -> Mapping[Address, str]:
    """The places where something was said just before: after a short absence only those are read. Slack brings the rest
    by itself, a little later. Pure."""
    return {one: message for one, message in last.items() if is_ts(message) and float(message) > now - BUSY_SECONDS}


def plan_reading(last: Mapping[Address, str]) -> list[ChatReading]:
    """What has to be read, by the last message that was stored of each place; the chats in which something was said
    last come first. The root of a known thread was said in the chat itself, so whatever came before it is known, too.
    Pure."""
    heard = [(address, message) for address, message in last.items() if is_ts(message)]
    known = dict(sorted(heard, key=lambda pair: float(pair[1]), reverse=True))
    since = max(map(float, known.values()), default=0.0) - THREAD_DAYS * 86_400
    newest = [one for one, message in known.items() if one.thread and float(message) >= since][:MOST_THREADS]
    chats: dict[str, list[Address]] = {}
    for address in known:
        chats.setdefault(address.chat, []).append(address)
    return [
        ChatReading(
            channel,
            places[0].kind,
            max((place.thread or known[place] for place in places), default=""),
            tuple((place.thread, known[place]) for place in places if place in newest),
        )
        for channel, places in chats.items()
    ]


async def read_missed(call: Call, reading: ChatReading) -> list[Mapping[str, Any]]:
    """What was said in a chat and its threads since, as events, in the order in which it was said."""
    found = await read_messages(call, reading.channel, "", reading.since) if is_ts(reading.since) else []
    begun = [(str(one["ts"]), str(one["ts"])) for one in found if one.get("reply_count")]
    for thread, since in (*reading.threads, *begun):
        found += await read_messages(call, reading.channel, thread, since)
    return list(_as_events(found, reading))


def _as_events(messages: Iterable[Mapping[str, Any]], reading: ChatReading) -> Iterable[Mapping[str, Any]]:
    about = {"type": "message", "channel": reading.channel, "channel_type": "im" if reading.kind == "dm" else "channel"}
    once = {str(one["ts"]): one for one in messages}
    for ts in sorted(once):
        yield {**once[ts], **about}
