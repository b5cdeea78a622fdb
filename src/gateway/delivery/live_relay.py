"""Live events between processes that share a store: whoever watches a conversation here sees what happens there in
another process, and the other way round. On the event loop.

A process that has watchers says of which conversations, again and again; nothing is sent of others. All of it goes by
hints, which may be lost, doubled or late: the numbers of `LivePiece` tell, and then the store is looked at. What a turn
has shown and the store has not, its owner keeps there when somebody asks for it. A look once a second is the floor.
"""

import asyncio
import itertools
import json
import logging
import math
import secrets
import time
from collections import Counter
from collections.abc import Callable, Collection, Coroutine, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, cast

from gateway.delivery.chats import CallStore
from gateway.delivery.delivery import LiveEvents
from gateway.delivery.hints import Hints
from gateway.delivery.live_following import Following, PieceVerdict
from gateway.delivery.live_pieces import (
    BESIDE,
    LivePiece,
    list_passing,
    read_picture,
    read_piece,
    write_picture,
    write_piece,
)
from gateway.platforms.face import LiveEvent, TakenOver
from gateway.platforms.hub import HubAdapter, Lost, Picture, PicturedAdapter, Posted, Sent, Watch, Watched
from hermes_base.chat import DeltaJoiner, ReasoningDelta, TextDelta
from hermes_base.errors import StoreFailure
from hermes_base.inbound import Address
from hermes_state.sql.engines.hints import LONGEST_HINT
from hermes_state.sql.turns_sql import TurnStore
from hermes_state.turns import Claim, ConversationStand

log = logging.getLogger(__name__)

WATCHERS = "watchers"  # the topic of who watches what
PACE_SECONDS = 0.1  # between two pieces of a conversation
PICTURE_SECONDS = 1.0  # between two pictures of a turn that are kept in the store
RENEW_SECONDS = 10.0  # between two times that all watched conversations are named
HELD_SECONDS = 3 * RENEW_SECONDS  # so long one that was named is taken for watched
ASK_SECONDS = 1.0  # between two times that a picture is asked for
MOST_NAMED = 7_000  # bytes of names in one hint
MOST_PASSING = 20  # events beside a picture
JOINED = "agent:"  # so the key of a conversation begins
WATCH, LEAVE, ASK, WHO = "watch", "leave", "ask", "who"  # words of that topic

FindClaim = Callable[[str], Claim | None]
#: There is a newer claim on a conversation than ours: what is at work there under the old one ends; False: nothing is.
GiveWay = Callable[[str], bool]


def name_topic(conversation: str) -> str:
    """Of the hints about what happens there."""
    return f"live {conversation}"


@dataclass(eq=False, slots=True)
class _Telling:
    """What is told of a conversation that is worked on here and watched elsewhere."""

    claim: Claim
    waiting: DeltaJoiner = field(default_factory=DeltaJoiner)
    last: int = 0  # the piece that was sent last
    sent: float = -math.inf  # and when
    pictured: float = -math.inf  # when a picture was kept
    keeps: bool = False  # one is on its way into the store
    timer: asyncio.TimerHandle | None = None

    def put_first(self, events: Sequence[Watched]) -> None:
        later, self.waiting = self.waiting.take(), DeltaJoiner()
        for event in (*events, *later):
            self.waiting.add(event)


class LiveRelay:
    def __init__(
        self,
        hints: Hints,
        turns: TurnStore,
        call: CallStore,
        live_events: LiveEvents,
        adapters: Sequence[HubAdapter],
        spawn: Callable[[Coroutine[Any, Any, None]], None],
        profile: str,
    ) -> None:
        self.find_claim: FindClaim = lambda conversation: None
        self.give_way: GiveWay = lambda conversation: False
        self._hints, self._turns, self._call = hints, turns, call
        self._live_events, self._adapters, self._spawn = live_events, adapters, spawn
        self._profile = profile
        self._name = secrets.token_hex(6)
        self._numbers = itertools.count(1)
        self._watched: Counter[str] = Counter()  # here
        self._followings: dict[str, Following] = {}
        self._held: dict[str, list[LivePiece]] = {}  # what came while a picture is read
        self._asked: dict[str, float] = {}  # when a picture was asked for
        self._elsewhere: dict[str, dict[str, float]] = {}  # who watches there, and until when
        self._tellings: dict[str, _Telling] = {}
        self._renewed = time.monotonic()

    def start(self) -> None:
        self._live_events.elsewhere, self._live_events.pass_on = self._elsewhere, self.pass_on
        for adapter in self._adapters:
            adapter.watch_everywhere = self._watch
        self._hints.listen(WATCHERS, self._hear_watchers)
        self._hints.tell(WATCHERS, json.dumps([self._name, WHO, []]))

    async def look(self) -> None:
        """Once a second: find out what nobody has told."""
        now = time.monotonic()
        for conversation, who in list(self._elsewhere.items()):
            for name in [name for name, until in who.items() if until < now]:
                self._forget(conversation, name)
        if self._watched:
            if now >= self._renewed + RENEW_SECONDS:
                self._name_watched()
            await self._look_at(list(self._watched))

    # --- who watches

    @contextmanager
    def _watch(self, adapter: HubAdapter, conversation: str) -> Iterator[Watch]:
        with adapter.hub.watch(adapter.place(conversation)) as watch:
            self._watched[conversation] += 1
            if self._watched[conversation] == 1:
                self._followings[conversation] = Following()
                self._hints.listen(name_topic(conversation), self._hear)
                self._say(WATCH, [conversation])
                self._spawn(self._look_first(conversation))
            try:
                yield watch
            finally:
                self._watched[conversation] -= 1
                if not self._watched[conversation]:
                    del self._watched[conversation], self._followings[conversation]
                    self._asked.pop(conversation, None)
                    self._hints.end(name_topic(conversation), self._hear)
                    self._say(LEAVE, [conversation])

    def _say(self, word: str, conversations: Collection[str]) -> None:
        """To all processes."""
        some: list[str] = []
        for conversation in conversations:
            if some and sum(map(len, some)) + len(conversation) > MOST_NAMED // 6:  # what is no ASCII takes six bytes
                self._hints.tell(WATCHERS, json.dumps([self._name, word, some]))
                some = []
            some.append(conversation)
        if some:
            self._hints.tell(WATCHERS, json.dumps([self._name, word, some]))

    def _name_watched(self) -> None:
        self._renewed = time.monotonic()
        self._say(WATCH, self._watched)

    def _hear_watchers(self, text: str) -> None:
        try:
            name, word, conversations = json.loads(text)
        except ValueError:
            return
        if word == WHO:
            self._name_watched()
        for conversation in conversations:
            if word == LEAVE:
                self._forget(conversation, name)
                continue
            who = self._elsewhere.setdefault(conversation, {})
            is_new = name not in who
            who[name] = time.monotonic() + HELD_SECONDS
            claim = self.find_claim(conversation)
            if claim is not None and (word == ASK or (is_new and self._find_picture(conversation) is not None)):
                self._begin_picture(self._get_telling(claim))

    def _forget(self, conversation: str, name: str) -> None:
        who = self._elsewhere.get(conversation, {})
        who.pop(name, None)
        if not who and self._elsewhere.pop(conversation, None) is not None:
            telling = self._tellings.pop(conversation, None)
            if telling is not None and telling.timer is not None:
                telling.timer.cancel()

    # --- what happens here

    def pass_on(self, conversation: str, event: Watched) -> None:
        """To those who watch it elsewhere."""
        claim = self.find_claim(conversation)
        if isinstance(event, TakenOver):
            return
        if claim is None:
            if isinstance(event, BESIDE) and not self._send(LivePiece(conversation, events=(event,))):
                self._send(LivePiece(conversation, look=True))
            return
        telling = self._get_telling(claim)
        if telling.waiting.add(event) and not telling.keeps:
            self._plan(telling)

    def pass_row(self, address: Address, event: Watched, conversation: str = "") -> None:
        """Something stands in the outbox for a chat; a chat that is joined has the conversation's key for a name."""
        key = conversation or (address.chat if address.chat.startswith(JOINED) else address.conversation(self._profile))
        if key in self._elsewhere:
            self.pass_on(key, event)

    def _get_telling(self, claim: Claim) -> _Telling:
        telling = self._tellings.get(claim.conversation)
        if telling is None or telling.claim != claim:
            if telling is not None and telling.timer is not None:
                telling.timer.cancel()
            telling = self._tellings[claim.conversation] = _Telling(claim)
        return telling

    def _plan(self, telling: _Telling) -> None:
        if telling.timer is None:
            pause = max(0.0, telling.sent + PACE_SECONDS - time.monotonic())
            telling.timer = asyncio.get_running_loop().call_later(pause, self._flush, telling)

    def _flush(self, telling: _Telling) -> None:
        telling.timer = None
        if telling.keeps:
            return
        events = telling.waiting.take()
        if not events:
            return
        size = sum(len(event.text) for event in events if isinstance(event, TextDelta | ReasoningDelta))
        picture = self._find_picture(telling.claim.conversation)
        turn = picture.seqs[0] if picture is not None else 0
        if size > LONGEST_HINT or not self._send_next(telling, LivePiece("", turn=turn, events=events)):
            telling.put_first(list_passing(events))
            self._begin_picture(telling)

    def _send_next(self, telling: _Telling, piece: LivePiece, number: int = 0) -> bool:
        claim, number = telling.claim, number or next(self._numbers)
        numbered = LivePiece(
            claim.conversation, claim.epoch, piece.turn, number, telling.last, piece.events, piece.look
        )
        if not self._send(numbered):
            return False
        telling.last, telling.sent = number, time.monotonic()
        return True

    def _send(self, piece: LivePiece) -> bool:
        """False: it is too long."""
        text = write_piece(piece)
        if len(text.encode("utf-8", "replace")) > LONGEST_HINT:
            return False
        self._hints.tell(name_topic(piece.conversation), text)
        return True

    def _find_picture(self, conversation: str) -> Picture | None:
        pictured = (one for one in self._adapters if isinstance(one, PicturedAdapter))
        return next((picture for one in pictured if (picture := one.picture(conversation)) is not None), None)

    def _begin_picture(self, telling: _Telling) -> None:
        if not telling.keeps:
            telling.keeps = True
            self._spawn(self._tell_picture(telling))

    async def _tell_picture(self, telling: _Telling) -> None:
        """Keep what the turn has shown so far in the store, and say that it is there. What happens meanwhile waits."""
        conversation = telling.claim.conversation
        try:
            await asyncio.sleep(max(0.0, telling.pictured + PICTURE_SECONDS - time.monotonic()))
            passing = [each for each in list_passing(telling.waiting.take()) if _is_short(each)][-MOST_PASSING:]
            picture, number, turn = self._find_picture(conversation), next(self._numbers), 0
            telling.pictured = time.monotonic()
            if picture is not None:
                shown, first = write_picture(picture, number), picture.seqs[0]
                turn = first if await self._call(self._turns.keep_shown, telling.claim, first, shown) else 0
            self._send_next(telling, LivePiece("", turn=turn, look=True), number)
            telling.put_first(passing)
        except StoreFailure as problem:
            log.info("what a turn of %s shows cannot be kept for others now: %s", conversation, problem)
        finally:
            telling.keeps = False
            if self._tellings.get(conversation) is telling:
                self._plan(telling)

    # --- what happens elsewhere

    def _hear(self, text: str) -> None:
        piece = read_piece(text)
        if piece is None or piece.conversation not in self._followings:
            return
        if piece.conversation in self._held:
            self._held[piece.conversation].append(piece)
        else:
            self._take(piece)

    def _take(self, piece: LivePiece) -> None:
        conversation, claim = piece.conversation, self.find_claim(piece.conversation)
        following = self._followings[conversation]
        if claim is not None and piece.epoch:
            if piece.epoch <= claim.epoch:
                return
            if self.give_way(conversation):
                self._spawn(self._look_first(conversation))
                return
        before = following.epoch
        verdict = following.judge(piece)
        if following.epoch > before and self._find_picture(conversation) is not None:
            self._show(conversation, TakenOver())
        if verdict is PieceVerdict.TAKE and piece.look:
            self._have_reread(conversation)
        elif verdict is PieceVerdict.TAKE:
            for event in piece.events:
                self._show(conversation, event)
        elif verdict is PieceVerdict.LOOK:
            self._held[conversation] = []
            self._spawn(self._take_picture(piece))
        elif verdict is PieceVerdict.MISSING:
            self._ask(conversation)

    async def _take_picture(self, piece: LivePiece) -> None:
        conversation, found = piece.conversation, None
        try:
            if piece.turn:
                found = await self._call(self._turns.find_shown, conversation, piece.turn)
        except StoreFailure as problem:
            log.info("what a turn of %s shows cannot be read now: %s", conversation, problem)
        held, following = self._held.pop(conversation, []), self._followings.get(conversation)
        if following is None:
            return
        if found is not None:
            picture, number = read_picture(found[1])
            if following.catch_up(found[0], number):
                for adapter in self._adapters:
                    adapter.show_picture(conversation, picture)
        elif following.catch_up(piece.epoch, piece.number):  # the store has it all
            self._show(conversation, TakenOver())
            self._have_reread(conversation)
        for index, late in enumerate(held):
            if conversation in self._held:
                self._held[conversation] += held[index:]
                return
            self._take(late)

    def _show(self, conversation: str, event: Watched) -> None:
        match event:
            case Sent(_, outgoing):
                for adapter in self._adapters:
                    if (adapter.spec.name, adapter.account) == (outgoing.address.platform, outgoing.address.account):
                        adapter.hub.show(outgoing.address.chat, event)
            case Posted():
                for adapter in self._adapters:
                    if adapter.spec.confirms:
                        adapter.hub.show(adapter.place(conversation), event)
            case Lost():
                self._have_reread(conversation)
            case _:
                self._live_events.show(conversation, cast(LiveEvent, event), from_elsewhere=True)

    def _have_reread(self, conversation: str) -> None:
        for adapter in self._adapters:
            adapter.have_reread(conversation)

    def _ask(self, conversation: str) -> None:
        """Whoever works there is to keep a picture of the turn, and to say so."""
        now = time.monotonic()
        if now >= self._asked.get(conversation, -math.inf) + ASK_SECONDS:
            self._asked[conversation] = now
            self._say(ASK, [conversation])

    # --- what the store says

    async def _look_first(self, conversation: str) -> None:
        try:
            await self._look_at([conversation])
        except StoreFailure as problem:
            log.info("%s cannot be looked at now: %s", conversation, problem)

    async def _look_at(self, conversations: Sequence[str]) -> None:
        standings = await self._call(self._turns.standings, conversations)
        for conversation in conversations:
            following = self._followings.get(conversation)
            if following is not None:
                self._compare(conversation, following, standings.get(conversation, ConversationStand()))

    def _compare(self, conversation: str, following: Following, now: ConversationStand) -> None:
        claim = self.find_claim(conversation)
        if claim is not None and claim.epoch >= now.epoch:
            if following.adopt(now):
                self._have_reread(conversation)
            return
        if claim is not None and self.give_way(conversation):
            return
        before, hears = following.epoch, not self._hints.problem
        has_more = following.look(now, hears=hears)
        picture = self._find_picture(conversation)
        if picture is not None and (now.epoch > before or (has_more and now.open.isdisjoint(picture.seqs))):
            self._show(conversation, TakenOver())
        if has_more:
            self._have_reread(conversation)
        if hears and now.open and not following.is_told:
            self._ask(conversation)


def _is_short(event: Watched) -> bool:
    return len(write_piece(LivePiece("", events=(event,)))) < LONGEST_HINT // MOST_PASSING
