"""One session of an editor: a conversation of Hermes over the socket that terminals use. It hands prompts over, tells
the editor what happens, and asks it what Hermes asks."""

import asyncio
import logging
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, Protocol

from acp import schema

from hermes_base.chat import Asked, Closed, Event, Idle, Notice, Question, ToolEnded, ToolStarted, TurnEnded
from hermes_base.errors import StoreFailure
from hermes_base.inbound import FileRef
from hermes_cli import config
from hermes_cli.acp import permission_asking as asking
from hermes_cli.acp import tool_shapes as shapes
from hermes_cli.acp.session_shelf import SessionShelf
from hermes_cli.acp.turn_telling import (
    RunningCall,
    TurnTelling,
    Update,
    begin_call,
    break_call,
    end_call,
    is_cut,
    say,
    tell_whole,
)
from hermes_cli.chat.local_client import LocalClient
from hermes_cli.chat.terminal_events import FeedEnded, carry_events
from hermes_cli.chat.terminal_words import read_command
from tools.files.file_changes import find_change

log = logging.getLogger(__name__)

_AGAIN_SECONDS = 1.0  # between two tries to stop what has not begun
_LEAVE_IT = "Close the session in the editor; what was said is kept."


class Editor(Protocol):
    """What a session needs of the editor."""

    async def session_update(self, session_id: str, update: Any) -> None: ...

    async def request_permission(
        self, session_id: str, tool_call: schema.ToolCallUpdate, options: list[schema.PermissionOption]
    ) -> schema.RequestPermissionResponse: ...


class Busy(Exception):
    """A prompt of this session is being answered."""


class Unanswered(Exception):
    """There is no answer, and why."""


class EditorSession:
    """From `start` to `close`; on the event loop."""

    def __init__(
        self, id: str, client: LocalClient, editor: Editor, shelf: SessionShelf, folder: str, home: Path
    ) -> None:
        self.id = id
        self._client = client
        self._editor = editor
        self._shelf = shelf
        self.folder = folder
        self._home = home
        self._telling = TurnTelling()
        self._events: asyncio.Queue[Event | FeedEnded] = asyncio.Queue()
        self._prompt: asyncio.Future[schema.StopReason] | None = None
        self._typed: Question | None = None  # the next prompt answers it
        self._calls: dict[str, RunningCall] = {}
        self._cut: dict[str, str] = {}  # ended calls of which only the beginning was told, and their tools
        self._asked: dict[str, asyncio.Task[None]] = {}  # questions that the editor shows
        self._replayed: set[str] = set()  # answers that the editor was shown from the transcript
        self._work: asyncio.Task[None] | None = None
        self._ended = ""  # why nothing more can be said here

    @property
    def is_busy(self) -> bool:
        return self._prompt is not None

    def start(self, replayed: set[str] | None = None) -> None:
        """Tell the editor what happens from now on."""
        loop = asyncio.get_running_loop()
        self._replayed = replayed or set()

        def put(event: Event | FeedEnded) -> None:
            try:
                loop.call_soon_threadsafe(self._events.put_nowait, event)
            except RuntimeError:  # the loop is closed: the process ends
                log.debug("an event came too late")

        carry_events(self._client, put)
        self._work = loop.create_task(self._tell_on())

    async def close(self) -> None:
        if self._work is not None:
            self._work.cancel()
            await asyncio.gather(self._work, return_exceptions=True)
        self._forget_questions()
        await asyncio.to_thread(self._client.close)

    # --- what the editor asks for

    async def prompt(self, text: str, files: tuple[FileRef, ...]) -> schema.StopReason:
        """Hand it over, and wait for its end; Busy, or Unanswered with the words of the gateway."""
        if self._prompt is not None:
            raise Busy
        if self._ended:
            raise Unanswered(self._ended)
        waiting: asyncio.Future[schema.StopReason] = asyncio.get_running_loop().create_future()
        self._prompt = waiting
        self._telling.begin()
        try:
            await self._hand_over(text, files)
            return await waiting
        finally:
            self._prompt = None

    async def _hand_over(self, text: str, files: tuple[FileRef, ...]) -> None:
        command = read_command(text)
        if command is not None and command.name == "quit":
            await self._tell(say(_LEAVE_IT))
            self._end_prompt("end_turn")
            return
        question, self._typed = self._typed, None
        if question is not None:
            answer = "" if command else "\n".join((text, *(file.path for file in files)))
            taken = await asyncio.to_thread(self._client.answer, question.id, answer)
            if taken and not command:
                return
        self._client.submit(text, files)

    async def cancel(self) -> None:
        """Stop the turn; one that has not begun is stopped when it does."""
        self._telling.cancelled = True
        self._typed = None
        while not await asyncio.to_thread(self._client.stop):
            if self._prompt is None or self._ended:
                return
            await asyncio.wait([self._prompt], timeout=_AGAIN_SECONDS)

    # --- what happens

    async def _tell_on(self) -> None:
        """The boundary to the editor: one that is gone hears no more, and the turn goes on without it."""
        while True:
            event = await self._events.get()
            try:
                await self._take(event)
            except (ConnectionError, asyncio.IncompleteReadError):
                log.info("The editor is gone.")
                return
            except Exception as problem:  # it must not stop what comes next
                log.exception("an editor could not be told what happened")
                self._fail(f"Something went wrong inside hermes ({type(problem).__name__}).")

    async def _take(self, event: Event | FeedEnded) -> None:
        if self._cut and not isinstance(event, ToolEnded):
            await self._tell_rest(isinstance(event, TurnEnded | Idle))
        match event:
            case ToolStarted():
                await self._begin_call(event)
            case ToolEnded():
                await self._end_call(event)
            case Asked(question):
                await self._ask(question)
            case Idle():
                await self._settle()
            case Closed() | FeedEnded():
                self._ended = "\n".join(self._telling.errors) or "The gateway is gone. What was said is kept."
                self._fail(self._ended)
            case TurnEnded(answer) if self._prompt is None and answer.strip() in self._replayed:
                self._replayed.discard(answer.strip())
            case _:
                await self._tell(*self._telling.tell(event))
        if isinstance(event, TurnEnded):
            await self._end_calls()
        if isinstance(event, Notice | TurnEnded) and self._prompt is None:
            await self._tell(*self._telling.tell_late())  # nobody waits for an answer that could be an error

    async def _tell(self, *updates: Update) -> None:
        for update in updates:
            await self._editor.session_update(self.id, update)

    async def _settle(self) -> None:
        """All that was handed over is dealt with."""
        self._forget_questions()
        await self._end_calls()
        failure = self._telling.failure
        if failure:
            self._fail(failure)
        else:
            await self._tell(*self._telling.tell_late())
            self._end_prompt(self._telling.stop_reason)

    def _end_prompt(self, reason: schema.StopReason) -> None:
        if self._prompt is not None and not self._prompt.done():
            self._prompt.set_result(reason)

    def _fail(self, words: str) -> None:
        if self._prompt is not None and not self._prompt.done():
            self._prompt.set_exception(Unanswered(words))

    # --- tools

    async def _begin_call(self, event: ToolStarted) -> None:
        task, args = await self._read(lambda: self._shelf.find_call(self._client.conversation, event.id), ("", {}))
        call = self._calls[event.id] = RunningCall(event.name, args, task)
        await self._tell(begin_call(event, call, self.folder))

    async def _end_call(self, event: ToolEnded) -> None:
        call = self._calls.pop(event.id, RunningCall(event.name))
        writes = event.ok and event.name in shapes.WRITERS
        diffs = await self._read(lambda: self._find_diffs(call), []) if writes else []
        await self._tell(end_call(event, diffs))
        plan = shapes.find_plan(call.args, event.preview) if event.ok and event.name == shapes.PLAN else None
        if plan is not None:
            await self._tell(plan)

        if not diffs and is_cut(event):
            self._cut[event.id] = event.name

    async def _tell_rest(self, last: bool) -> None:
        """The results of a round are stored when it has ended; `last`: what is not stored now never will be."""
        results = await self._read(lambda: self._shelf.find_results(self._client.conversation, tuple(self._cut)), {})
        await self._tell(*(tell_whole(id, self._cut.pop(id), result) for id, result in results.items()))
        if last:
            self._cut.clear()

    def _find_diffs(self, call: RunningCall) -> list[schema.FileEditToolCallContent]:
        redact = config.redactor()
        found = (
            (path, find_change(self._home, call.task, os.path.realpath(path)))
            for path in shapes.list_files(call.name, call.args, self.folder)
        )
        return [shapes.make_diff(path, redact(change[0]), redact(change[1])) for path, change in found if change]

    async def _read(self, work: Callable[[], Any], otherwise: Any) -> Any:
        """What more there is to show; the turn goes on without it when it cannot be read now."""
        try:
            return await asyncio.to_thread(work)
        except (OSError, StoreFailure):
            log.warning("what a tool does could not be read for the editor", exc_info=True)
            return otherwise

    async def _end_calls(self) -> None:
        calls, self._calls = self._calls, {}
        await self._tell(*map(break_call, calls))

    # --- questions

    async def _ask(self, question: Question) -> None:
        if question.id in self._asked:
            return
        if asking.is_typed(question):
            self._typed = question
            await self._tell(*self._telling.tell(Notice(question.text)))
            self._end_prompt("end_turn")
            return
        self._asked[question.id] = asyncio.get_running_loop().create_task(self._ask_editor(question))

    async def _ask_editor(self, question: Question) -> None:
        """Nobody has agreed unless the editor names a choice that was offered (G4)."""
        known = len(self._calls) == 1
        call = next(iter(self._calls)) if known else f"question-{question.id}"
        answer = asking.NO_ANSWER
        try:
            shown = asking.describe(question, call, known=known)
            if not known:
                await self._tell(asking.begin(shown))
            answered = await self._editor.request_permission(self.id, shown, asking.list_options(question))
            answer = asking.read_outcome(question, answered)
        except ConnectionError:
            log.info("The editor is gone; the question stays open for others.")
            return
        except Exception:  # the boundary to the editor: what it answered is no answer
            log.exception("an editor could not be asked")
        finally:
            self._asked.pop(question.id, None)
        if not known or call in self._calls:
            await self._tell(asking.end(call, known=known, agreed=bool(answer)))
        if not await asyncio.to_thread(self._client.answer, question.id, answer) and not self._telling.cancelled:
            log.info("A question was not open any more when it was answered.")

    def _forget_questions(self) -> None:
        for task in self._asked.values():
            task.cancel()
        self._asked.clear()
        self._typed = None
