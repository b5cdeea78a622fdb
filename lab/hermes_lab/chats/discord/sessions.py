"""The gateway: lines on which a bot is told what happens. A session outlives its line, for a while."""

import asyncio
import itertools
import json
import zlib
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import parse_qs

from hermes_lab.chats.chat_socket import ChatSocket
from hermes_lab.chats.discord.discord_values import (
    DIRECT_MESSAGES,
    FRAMES,
    GUILD_MESSAGES,
    GUILDS,
    HEARTBEAT,
    IDENTIFY,
    KNOWN_INTENTS,
    MESSAGE_CONTENT,
    PRIVILEGED,
    JsonObject,
)
from hermes_lab.chats.discord.discord_world import DiscordBot, DiscordWorld
from hermes_lab.chats.record import ChatRecord

MOST_FRAME, MOST_FRAMES, FRAMES_SECONDS = 4096, 120, 60.0
IDENTIFY_SECONDS, RESUME_SECONDS = 5.0, 180.0
HEARTBEAT_SECONDS = 41.25
MOST_IDENTIFIES = 1000  # in a day
_CLOSE_SECONDS = 1.0  # for a client to answer the end of its line
_ENDS_SESSION = (1000, 1001)
#: Fields of a message that are empty for whoever may not read messages.
_CONTENT_FIELDS: Mapping[str, Any] = {"content": "", "embeds": [], "attachments": [], "components": []}


@dataclass(slots=True)
class Session:
    id: str
    bot: DiscordBot
    intents: int
    sent: list[tuple[int, str]] = field(default_factory=list)  # number and frame, for whoever resumes
    line: "GatewayLine | None" = None
    left_at: float = 0.0
    ended: bool = False

    def tell(self, kind: str, data: JsonObject) -> None:
        number = len(self.sent) + 1
        frame = json.dumps({"op": 0, "t": kind, "s": number, "d": data})
        self.sent.append((number, frame))
        if self.line is not None:
            self.line.put(frame)


class SessionBook:
    """All sessions, and what is told to whom."""

    def __init__(self, world: DiscordWorld, record: ChatRecord) -> None:
        self.world = world
        self.record = record
        self.sessions: dict[str, Session] = {}
        self.heartbeat_seconds = HEARTBEAT_SECONDS
        self.resume_address = ""  # where sessions are to be taken up again; empty: here
        self.identified: dict[str, deque[float]] = {}  # by bot: when
        self._numbers = itertools.count(1)

    def begin(self, bot: DiscordBot, intents: int) -> Session:
        session = Session(f"session-{next(self._numbers)}", bot, intents)
        self.sessions[session.id] = session
        return session

    def find(self, bot: DiscordBot, name: str) -> Session | None:
        """A session that can still be resumed."""
        session = self.sessions.get(name)
        if session is None or session.bot is not bot or session.ended:
            return None
        gone = session.line is None and self.world.clock.now() - session.left_at > RESUME_SECONDS
        return None if gone else session

    def tell(self, bot: DiscordBot, kind: str, data: JsonObject, intents: int = 0) -> None:
        """Tell each session of a bot that has asked for one of these intents; 0: each."""
        for session in self.sessions.values():
            if session.bot is bot and not session.ended and (not intents or session.intents & intents):
                session.tell(kind, data)

    def tell_message(self, bot: DiscordBot, kind: str, body: JsonObject) -> None:
        """A message, as far as the bot may read it."""
        in_guild = "guild_id" in body
        wanted = GUILD_MESSAGES if in_guild else DIRECT_MESSAGES
        named = body["author"]["id"] == bot.id or any(one["id"] == bot.id for one in body["mentions"])
        for session in self.sessions.values():
            if session.bot is not bot or session.ended or not session.intents & wanted:
                continue
            readable = not in_guild or named or session.intents & MESSAGE_CONTENT
            session.tell(kind, body if readable else {**body, **_CONTENT_FIELDS})

    def lines(self) -> list["GatewayLine"]:
        return [session.line for session in self.sessions.values() if session.line is not None]

    def note_identify(self, bot: DiscordBot) -> bool:
        """Whether it may be now."""
        now = self.world.clock.now()
        times = self.identified.setdefault(bot.id, deque())
        while times and times[0] < now - 86_400:
            times.popleft()
        recent = sum(now - at < IDENTIFY_SECONDS for at in times)
        times.append(now)
        if recent > 1:  # a program that was started anew cannot know of the first
            self.record.complain(IDENTIFY, f"Identify came {recent + 1} times within 5 seconds.")
        return not recent and len(times) <= MOST_IDENTIFIES


class GatewayLine:
    """One websocket of a bot, from hello to its end."""

    def __init__(self, book: SessionBook, socket: ChatSocket) -> None:
        self._book = book
        self._socket = socket
        query = {name: values[-1] for name, values in parse_qs(socket.query).items()}
        self._query = query
        self._packer = zlib.compressobj() if query.get("compress") == "zlib-stream" else None
        self._session: Session | None = None
        self._frames: deque[float] = deque()
        self._beat = asyncio.Event()
        self._closing: int | None = None
        self._frozen = False

    async def run(self) -> None:
        if self._query.get("encoding") != "json" or self._query.get("compress") not in (None, "zlib-stream"):
            await self._socket.refuse()
            return
        await self._socket.accept()
        writer = asyncio.create_task(self._socket.run_writer())
        watcher = asyncio.create_task(self._watch_heart())
        try:
            if self._query.get("v") != "10":
                self.close(4012)
            else:
                milliseconds = int(self._book.heartbeat_seconds * 1000)
                self.put(json.dumps({"op": 10, "d": {"heartbeat_interval": milliseconds}, "s": None, "t": None}))
            while (frame := await self._socket.read()) is not None:
                self._take(frame)
        finally:
            self._leave()
            writer.cancel()
            watcher.cancel()
            await asyncio.gather(writer, watcher, return_exceptions=True)

    def freeze(self) -> None:
        """Say and hear nothing more, without an end: as a line does whose other side was unplugged."""
        self._frozen = True
        self._detach()

    def put(self, frame: str) -> None:
        if self._frozen:
            return
        if self._packer is None:
            self._socket.put(frame)
        else:
            self._socket.put(self._packer.compress(frame.encode()) + self._packer.flush(zlib.Z_SYNC_FLUSH))

    def close(self, code: int) -> None:
        """The end, with this code; nothing is taken after it."""
        if self._closing is None:
            self._closing = code
            self._socket.close(code)
            asyncio.get_running_loop().call_later(_CLOSE_SECONDS, self._socket.abort)
        self._detach()

    def invalidate(self, resumable: bool) -> None:
        if self._session is not None and not resumable:
            self._session.ended = True
        self.put(json.dumps({"op": 9, "d": resumable, "s": None, "t": None}))

    def ask_to_reconnect(self) -> None:
        self.put(json.dumps({"op": 7, "d": None, "s": None, "t": None}))

    def _leave(self) -> None:
        if self._closing is None and self._socket.close_code in _ENDS_SESSION and self._session is not None:
            self._session.ended = True
        self._detach()

    def _detach(self) -> None:
        session = self._session
        if session is not None and session.line is self:
            session.line, session.left_at = None, self._book.world.clock.now()

    async def _watch_heart(self) -> None:
        while True:
            self._beat.clear()
            try:
                async with asyncio.timeout(self._book.heartbeat_seconds * 1.5):
                    await self._beat.wait()
            except TimeoutError:
                if self._frozen:
                    return
                self._book.record.complain(HEARTBEAT, "A heartbeat is missing.")
                self.close(4009)
                return

    # --- frames

    def _take(self, frame: str | bytes) -> None:
        if self._closing is not None or self._frozen:
            return
        now = self._book.world.clock.now()
        self._frames.append(now)
        while self._frames[0] <= now - FRAMES_SECONDS:
            self._frames.popleft()
        if len(self._frames) > MOST_FRAMES:
            self._fail(4008, "More frames than 120 in a minute.")
            return
        try:
            told = json.loads(frame)
            op, data = told["op"], told.get("d")
        except (ValueError, KeyError, TypeError):
            self._fail(4002, "A frame cannot be read.")
            return
        if len(frame) > MOST_FRAME:
            self._fail(4002, "A frame is larger than 4096 bytes.")
        elif op == 1:
            self._take_heartbeat(data)
        elif op == 2:
            self._identify(data if isinstance(data, dict) else {})
        elif op == 6:
            self._resume(data if isinstance(data, dict) else {})
        elif op in (3, 4, 8):
            if self._session is None:
                self._fail(4003, f"Op {op} before Identify.")
        else:
            self._fail(4001, f"There is no op {op}.")

    def _fail(self, code: int, text: str) -> None:
        self._book.record.complain(FRAMES, text)
        self.close(code)

    def _take_heartbeat(self, last: Any) -> None:
        self._beat.set()
        most = len(self._session.sent) if self._session else 0
        if self._session is not None and isinstance(last, int) and last > most:
            self._fail(4007, f"A heartbeat names {last}, and {most} is the last that was sent.")
            return
        self.put(json.dumps({"op": 11, "d": None, "s": None, "t": None}))

    def _find_bot(self, data: Mapping[str, Any]) -> DiscordBot | None:
        bot = self._book.world.bots.get(str(data.get("token")))
        return bot if bot is not None and not bot.revoked else None

    def _identify(self, data: Mapping[str, Any]) -> None:
        bot, intents = self._find_bot(data), data.get("intents")
        if self._session is not None:
            self._fail(4005, "Identify was sent twice.")
        elif bot is None:
            self.close(4004)
        elif not isinstance(intents, int) or intents & ~KNOWN_INTENTS or not isinstance(data.get("properties"), dict):
            self._fail(4013, "Intents or properties are wrong.")
        elif intents & PRIVILEGED & ~bot.privileged:
            self.close(4014)
        elif not self._book.note_identify(bot):
            self.invalidate(resumable=False)
        else:
            self._open(self._book.begin(bot, intents))

    def _open(self, session: Session) -> None:
        world, bot = self._book.world, session.bot
        here = world.address.replace("http", "ws", 1)
        self._session, session.line = session, self
        guilds = [guild for guild in world.guilds.values() if bot.id in guild.bots]
        ready = {
            "v": 10,
            "user": bot.describe(),
            "guilds": [{"id": guild.id, "unavailable": True} for guild in guilds],
            "session_id": session.id,
            "resume_gateway_url": self._book.resume_address or f"{here}/gateway/resume",
            "application": {"id": bot.id, "flags": bot.describe_application()["flags"]},
            "shard": [0, 1],
        }
        session.tell("READY", ready)
        for guild in guilds if session.intents & GUILDS else ():
            session.tell("GUILD_CREATE", world.describe_guild(guild))

    def _resume(self, data: Mapping[str, Any]) -> None:
        bot, seen = self._find_bot(data), data.get("seq")
        if bot is None:
            self.close(4004)
            return
        session = self._book.find(bot, str(data.get("session_id")))
        if session is None:
            self.invalidate(resumable=False)
            return
        if not isinstance(seen, int) or seen > len(session.sent):
            self._fail(4007, f"Resume names {seen}, and {len(session.sent)} is the last that was sent.")
            return
        if session.line is not None:
            session.line.close(4000)
        self._session, session.line = session, self
        for number, frame in session.sent:
            if number > seen:
                self.put(frame)
        session.tell("RESUMED", {})
