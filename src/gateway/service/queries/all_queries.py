"""What the page and the API ask of the gateway, with a part for each kind of question.

All calls are made on the gateway's event loop. A caller sees what belongs to them and nothing else; the page and the
owner's keys are the owner. What is refused is a HermesError with a sentence.
"""

import time
from collections import Counter, OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from gateway.core.people import may_keep
from gateway.core.route import NOT_YOURS_TO_KEEP, Standing
from gateway.core.usage_report import UsageReport, read_report
from gateway.service import metrics
from gateway.service.admin.key_admin import digest_of
from gateway.service.admin.operations import Operations
from gateway.service.chores import Chores
from gateway.service.queries.repeat_queries import RepeatQueries
from gateway.service.queries.setup_queries import SetupQueries
from gateway.service.queries.sign_in_queries import SignInQueries
from gateway.service.queries.thread_queries import ThreadQueries
from gateway.service.settings_watch import SettingsWatch
from gateway.turns.controls import Controls
from gateway.turns.lanes import Lanes
from gateway.turns.run_turn import GatewayParts
from gateway.turns.sender import find_standing
from gateway.turns.threads import StoreFace, start_thread
from hermes_base.chat import Question
from hermes_base.files.home_files import HomeFiles
from hermes_base.inbound import Outgoing
from hermes_base.query_values import Caller, NotAllowed
from hermes_base.turn.consent import is_kept
from hermes_cli import config as cli_config
from hermes_cli.config import logs
from hermes_state.damage import describe_damage
from hermes_state.people_store import OWNER
from hermes_state.sql.store_sql import Store
from hermes_state.store import UsageSum

RECENT_BREAKS = 50
MOST_DAYS, MOST_LINES = 366, 2000
FRESH_SECONDS = 2.0  # a revoked key is refused after so long at the latest
MOST_REMEMBERED = 1_000


@dataclass(frozen=True, slots=True)
class Queries:
    version: str
    profile: str
    files: HomeFiles
    threads: ThreadQueries
    turns: "TurnQueries"
    gateway: "GatewayQueries"
    operations: Operations
    setup: SetupQueries
    keys: "KeyQueries"
    repeats: RepeatQueries
    sign_ins: SignInQueries


class TurnQueries:
    """Turns under way: stops them, answers their questions, tells what came of a message."""

    def __init__(self, parts: GatewayParts, controls: Controls, threads: ThreadQueries) -> None:
        self._store, self._call, self._questions = parts.store, parts.call, parts.questions
        self._controls = controls
        self._threads = threads

    async def stop(self, caller: Caller, conversation: str) -> bool:
        """False: nothing runs there."""
        await self._call(self._threads.check, caller, conversation)
        by = Standing(caller.person, caller.role)
        return await self._controls.stop(conversation, "stopped by the user", by)

    async def answer(self, caller: Caller, question: str, text: str) -> bool:
        """False: it is not open, or not the caller's to answer. NotAllowed: they may answer it, but not so."""
        row = await self._call(self._store.people.question, question)
        if row is None:
            return False
        if not (may_keep(caller.role) and question in {one.id for _, one in self._questions.asked_of_approvers()}):
            await self._call(self._threads.check, caller, row.conversation)
        if is_kept(row.kind, row.choices, text) and not may_keep(caller.role):
            raise NotAllowed(NOT_YOURS_TO_KEEP)
        by = Standing(caller.person, caller.role)
        return await self._controls.answer(row.conversation, question, text, by)

    async def question(self, caller: Caller, conversation: str) -> Question | None:
        await self._call(self._threads.check, caller, conversation)
        return self._questions.showing(conversation) or await self._call(self._questions.asked_elsewhere, conversation)

    async def answers(self, conversation: str, seqs: Sequence[int]) -> Sequence[Outgoing]:
        """What was said to these messages when they were dealt with, from the outbox."""
        found = [
            row for seq in sorted(seqs) for row in await self._call(self._store.turns.outbox_of, conversation, seq)
        ]
        return [row.outgoing for row in found]

    async def find_message(self, account: str, stem: str) -> tuple[int, bool] | None:
        """A message that was stored before under this name: its seq, and whether it is dealt with."""
        rows = await self._call(self._store.turns.find_message, account, stem)
        return (rows[-1][0], rows[-1][2]) if rows else None

    async def usage(self, conversation: str, seq: int) -> Mapping[str, int]:
        """Tokens of the conversation's calls since a turn was first begun for this message."""
        store = self._store

        def read() -> UsageSum:
            current, times = store.current(conversation), store.turns.times(conversation, seq, seq)
            if current is None or seq not in times or not times[seq].begun:
                return UsageSum()
            return store.usage(task=current.task, since=times[seq].begun)

        spent = await self._call(read)
        return {
            "input": spent.prompt_tokens,
            "cached": spent.cache_read_tokens,
            "output": spent.output_tokens,
            "reasoning": spent.reasoning_tokens,
        }


class GatewayQueries:
    """What the gateway costs, logs and measures, and what its operator should look at."""

    def __init__(self, parts: GatewayParts, lanes: Lanes, chores: Chores, settings_watch: SettingsWatch) -> None:
        self._parts = parts
        self._lanes = lanes
        self._chores = chores
        self._settings_watch = settings_watch

    async def usage(self, days: int) -> Mapping[str, Any]:
        """By day and by model, with hit rate, cost and prefix breaks by reason."""
        store, days = self._parts.store, min(max(days, 1), MOST_DAYS)
        report = await self._parts.call(lambda: read_report(store, "", days=days))
        return write_usage(report)

    async def log_tail(self, lines: int) -> Sequence[str]:
        """As people read them; the file itself holds JSON."""
        path, count = logs.log_path(self._parts.home), min(max(lines, 0), MOST_LINES)
        found = await start_thread(lambda: logs.read_tail(path, count), "log")
        return [logs.write_line(line) for line in found]

    async def metrics(self) -> str:
        """In the text format of Prometheus (H9)."""
        depth = await self._parts.call(self._parts.store.turns.depth)
        unsent = await self._parts.call(self._parts.store.turns.count_unsent)
        problem = self._settings_watch.problem
        return metrics.write_text(metrics.collect(self._parts, self._lanes, depth, unsent, problem))

    def warning(self) -> str:
        """What the operator should look at, though messages are taken; empty: nothing."""
        return describe_damage(self._chores.damaged)


def write_usage(report: UsageReport) -> dict[str, Any]:
    """The days asked for, as plots and tables need them."""
    counted = Counter(row.reason for row in report.breaks)
    recent = report.breaks[-RECENT_BREAKS:][::-1]
    return {
        "days": [{"day": group.keys[0], **write_sum(group.sum)} for group in report.days],
        "models": [
            {"provider": group.keys[0], "model": group.keys[1], **write_sum(group.sum)} for group in report.models
        ],
        "total": write_sum(report.total),
        "breaks": [{"reason": reason, "count": count} for reason, count in counted.most_common()],
        "recent_breaks": [
            {"session": row.session, "reason": row.reason, "position": row.position, "at": row.created}
            for row in recent
        ],
    }


def write_sum(spent: UsageSum) -> dict[str, Any]:
    return {**asdict(spent), "hit_rate": spent.hit_rate}


class KeyQueries:
    """Whose an API key is, as the store knows it, remembered for a few seconds. Keys are found by their digest, so how
    long it takes tells nothing about a key."""

    def __init__(self, store: Store, call: StoreFace) -> None:
        self._store, self._call = store, call
        self._known: OrderedDict[str, tuple[Caller, float]] = OrderedDict()  # and until when, by time.monotonic()

    async def check(self, secret: str) -> Caller | None:
        """Whose key this is, without a role when they may not speak today; None: nobody's, or it was revoked. Wrong
        keys are not remembered: there are too many."""
        digest = digest_of(secret)
        if not digest:
            return None
        known = self._known.get(digest)
        if known is not None and known[1] > time.monotonic():
            return known[0]
        caller = await self._call(self._find, digest)
        self._known.pop(digest, None)
        if caller is not None:
            self._known[digest] = caller, time.monotonic() + FRESH_SECONDS
        while len(self._known) > MOST_REMEMBERED:
            self._known.popitem(last=False)
        return caller

    def _find(self, digest: str) -> Caller | None:
        """On a store thread. A key of somebody who was removed is nobody's."""
        store = self._store
        row = store.keys.find(digest)
        if row is None:
            return None
        if not row.person:
            store.keys.used(row.id)
            return Caller(key=row.id)
        if store.people.get(row.person) is None:
            return None
        standing = find_standing(store.people, cli_config.load_last_good(), row.person)
        if standing.role:
            store.keys.used(row.id)
        return Caller(key=row.id) if standing.role == OWNER else Caller(row.person, standing.role, row.id)
