"""The two ways in which messages come: our own poll loop, and Telegram's requests to a webhook."""

import asyncio
import hmac
import json
import logging
import time
from collections.abc import Callable

from gateway.platforms.backoff import Pauses
from gateway.platforms.face import HookAnswer, HookRequest
from gateway.platforms.telegram.link import BotLink
from gateway.platforms.telegram.poll_rules import (
    HOOK_TAKEN,
    PollState,
    after_success,
    after_trouble,
    find_pause,
    judge_webhook,
)
from gateway.platforms.telegram.reception import Reception
from gateway.platforms.telegram.refusals import BotTrouble, TroubleKind, is_webhook_set
from gateway.platforms.telegram.wire_out import POLL_SECONDS, BotCall, make_poll, make_webhook

_log = logging.getLogger(__name__)
SECRET_HEADER = "x-telegram-bot-api-secret-token"
ANSWER_SECONDS = 10.0  # more than the time that a poll waits, for its answer to come
FIRST_PAUSE, LONGEST_PAUSE = 1.0, 30.0  # between two tries to poll
RETRY_SECONDS = 1.0  # after a message that could not be stored
LOOK_SECONDS = 60.0  # between two looks at the webhook
HOOK_UNSEEN = "Telegram cannot be asked about the webhook ({}). It is tried again."

NoteLife = Callable[[str], None]  # a sign of life, with the problem that there is; empty: none
NoteProblem = Callable[[str], None]


class Poller:
    """Asks for updates, one call after the other. What was not stored is asked for again (C1)."""

    def __init__(self, link: BotLink, reception: Reception, alive: NoteLife, troubled: NoteProblem) -> None:
        self._link = link
        self._reception = reception
        self._alive = alive
        self._troubled = troubled
        self._cuts, self._conflicts = Pauses(FIRST_PAUSE, LONGEST_PAUSE), Pauses(FIRST_PAUSE, LONGEST_PAUSE)

    async def run(self) -> None:
        offset: int | None = None
        state = PollState()
        while True:
            try:
                updates = await self._link.call(make_poll(offset), seconds=POLL_SECONDS + ANSWER_SECONDS)
            except BotTrouble as trouble:
                state = after_trouble(state, trouble, time.monotonic())
                _log.warning("Telegram could not be asked for messages: %s", trouble)
                self._troubled(state.problem)
                await asyncio.sleep(self._choose_pause(trouble))
                if is_webhook_set(trouble):
                    await self._drop_webhook()
                continue
            state = after_success(state, time.monotonic())
            self._cuts.reset()
            if not state.conflicts:
                self._conflicts.reset()
            self._alive(state.problem)
            following, settled = await self._reception.take_all(updates if isinstance(updates, list) else [])
            offset = offset if following is None else following
            if not settled:
                await asyncio.sleep(RETRY_SECONDS)

    def _choose_pause(self, trouble: BotTrouble) -> float:
        asked = find_pause(trouble)
        if asked is not None:
            return asked
        return (self._conflicts if trouble.kind is TroubleKind.CONFLICT else self._cuts).next()

    async def _drop_webhook(self) -> None:
        try:
            await self._link.call(BotCall("deleteWebhook", {}))
        except BotTrouble as trouble:
            _log.warning("The webhook of another program could not be taken away: %s", trouble)


class HookDoor:
    """Takes Telegram's requests, and looks once a minute whether they still come here."""

    def __init__(
        self, link: BotLink, reception: Reception, url: str, secret: str, alive: NoteLife, troubled: NoteProblem
    ) -> None:
        self._link = link
        self._reception = reception
        self._url = url
        self._secret = secret
        self._alive = alive
        self._troubled = troubled
        self._problem = ""

    async def open(self) -> None:
        await self._link.call(make_webhook(self._url, self._secret))

    async def receive(self, request: HookRequest) -> HookAnswer:
        """200 when what it brings is settled; whatever else Telegram hears, it sends it again."""
        given = request.headers.get(SECRET_HEADER, "")
        if not hmac.compare_digest(given.encode("utf-8", "replace"), self._secret.encode()):
            return HookAnswer(401)
        if request.method != "POST":
            return HookAnswer(405)
        try:
            update = json.loads(request.body)
        except (ValueError, RecursionError):
            _log.warning("Telegram sent something that is no JSON; it is left out.")
            return HookAnswer(400)
        self._alive(self._problem)
        _, settled = await self._reception.take_all([update])
        return HookAnswer(200 if settled else 503)

    async def run(self) -> None:
        while True:
            await asyncio.sleep(LOOK_SECONDS)
            try:
                await self.look()
            except BotTrouble as trouble:
                self._problem = HOOK_UNSEEN.format(trouble)
                self._troubled(self._problem)

    async def look(self) -> None:
        """Whether the webhook is still ours, and whether Telegram reaches it."""
        info = await self._link.call(BotCall("getWebhookInfo", {}))
        self._problem = judge_webhook(info, self._url, time.time())
        if self._problem == HOOK_TAKEN:
            _log.warning(HOOK_TAKEN)
            await self.open()
        self._alive(self._problem)
