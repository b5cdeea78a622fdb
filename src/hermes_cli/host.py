"""Runs the agent of a terminal chat in this process, behind the interface that every chat surface talks to.

What is submitted is dealt with in order on one worker thread; `/stop` and answers come in beside it.
"""

import logging
import queue
import threading
from collections.abc import Iterator
from dataclasses import dataclass

from agent.auxiliary_client import connect_runtime
from agent.clients import build_client, release_client
from hermes_base import commands
from hermes_base.chat import Answer, Asked, ChatHost, Closed, Event, Idle, Notice, Question, TurnEnded
from hermes_base.errors import HermesError
from hermes_cli.chat_commands import HANDLERS
from hermes_cli.chat_session import ChatSession, ModelChoice
from hermes_cli.plugins import (
    discover_plugins,
    get_plugin_command_handler,
    get_plugin_manager,
    resolve_plugin_command_result,
)
from hermes_constants import VERSION, get_hermes_home
from hermes_state.home_lock import HomeLock

log = logging.getLogger(__name__)

STOPPED = "stopped by the user"


@dataclass(frozen=True, slots=True)
class ChatOptions:
    model: str = ""
    provider: str = ""
    resume: str = ""
    continue_last: bool = False


@dataclass(frozen=True, slots=True)
class OpenedHost:
    host: ChatHost
    banner: list[str]


def open_host(options: ChatOptions) -> OpenedHost:
    """Take the home, find the model, open the conversation; HermesError says what is in the way."""
    lock = HomeLock(get_hermes_home())
    lock.acquire()
    try:
        discover_plugins()
        host = InProcessHost(lock, ModelChoice(options.model, options.provider))
    except BaseException:
        lock.release()
        raise
    try:
        banner = host.open_conversation(options)
    except BaseException:
        host.close()
        raise
    return OpenedHost(host, banner)


class Counter:
    """How many lines are not dealt with yet; several threads count."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self.value = 0

    def add(self, difference: int) -> None:
        with self._lock:
            self.value += difference


class InProcessHost:
    """Implements `ChatHost` and `Asker` with one agent."""

    def __init__(self, lock: HomeLock, choice: ModelChoice) -> None:
        self._lock = lock
        self._events: queue.SimpleQueue[Event] = queue.SimpleQueue()
        self._work: queue.SimpleQueue[str | None] = queue.SimpleQueue()
        self._questions: dict[str, queue.SimpleQueue[Answer]] = {}
        self._waiting = Counter()
        self._closed = False
        self._session = ChatSession(choice, self._events.put, self, self)
        self._worker = threading.Thread(target=self._work_on, name="chat-worker", daemon=True)
        self._worker.start()
        get_plugin_manager()._cli_ref = self  # lets plugins put a message into this chat
        threading.Thread(target=self._warm_up, name="warm-up", daemon=True).start()

    def open_conversation(self, options: ChatOptions) -> list[str]:
        """Find the conversation to go on with, if one was asked for; the lines that open the chat."""
        lines = _banner(self._session)
        resumed = None
        if options.resume:
            resumed = self._session.resume(options.resume)
        elif options.continue_last:
            resumed = self._session.resume_last()
            if resumed is None:
                lines.append("There is no earlier conversation to go on with; this is a new one.")
        if resumed is not None:
            lines.append(f"Going on with {resumed.id}: {resumed.title or resumed.preview}")
        return lines

    # --- ChatHost

    def submit(self, text: str) -> None:
        """In order behind what is under way; a command that need not wait runs beside it, or is refused."""
        asked = commands.parse(text)
        command = asked[0] if asked else None
        if command is not None and self._waiting.value:
            if command.when_busy == commands.NOW:
                if self._deal_with(text):
                    self._events.put(Closed())
                return
            if command.when_busy == commands.REFUSE:
                self._say(f"/{command.name} has to wait: an answer is under way. /stop stops it.", "warning")
                return
        self._waiting.add(1)
        self._work.put(text)

    def events(self) -> Iterator[Event]:
        while True:
            event = self._events.get()
            yield event
            if isinstance(event, Closed):
                return

    def stop(self) -> bool:
        stopped = self._session.interrupt(STOPPED)
        for box in list(self._questions.values()):
            box.put(Answer("", given=False))
        return stopped

    def answer(self, question_id: str, text: str) -> bool:
        box = self._questions.get(question_id)
        if box is None:
            return False
        box.put(Answer(text, given=bool(text)))
        return True

    def close(self) -> None:
        """End the turn under way, the task's processes, the store and the hold on the home."""
        if self._closed:
            return
        self._closed = True
        self.stop()
        self._work.put(None)
        self._worker.join(timeout=10)
        self._session.close()
        self._lock.release()
        self._events.put(Closed())

    # --- Asker

    def ask(self, question: Question) -> Answer:
        box: queue.SimpleQueue[Answer] = queue.SimpleQueue()
        self._questions[question.id] = box
        self._events.put(Asked(question))
        try:
            return box.get(timeout=question.expires_in)
        except queue.Empty:
            return Answer("", given=False)
        finally:
            del self._questions[question.id]

    # --- Notices

    def post(self, task: str, id: str, text: str) -> None:
        """Something ended outside of a turn: the person reads of it now, the model with the next message."""
        log.debug("notice %s of task %s", id, task)
        self._session.tell_model(text)
        self._say(text)

    # --- the worker

    def _work_on(self) -> None:
        while True:
            text = self._work.get()
            if text is None:
                return
            if self._deal_with(text):
                self._events.put(Closed())
                return
            self._waiting.add(-1)
            self._events.put(Idle())

    def _deal_with(self, text: str) -> bool:
        """One line of the chat; True when it ends it. Whatever fails becomes a sentence, and the chat goes on."""
        try:
            return self._perform(text)
        except HermesError as problem:
            self._say(str(problem), "error")
        except Exception as problem:
            log.exception("the chat could not deal with a message")
            self._say(f"Something went wrong inside hermes ({type(problem).__name__}: {problem}).", "error")
        return False

    def _perform(self, text: str) -> bool:
        asked = commands.parse(text)
        if asked is None:
            self._run_turn(text)
            return False
        command, args = asked
        if command is None:
            self._run_plugin_command(text)
        elif command.name == "quit":
            return True
        elif command.name == "stop":
            if not self.stop():
                self._say("Nothing is running.")
        elif command.name == "retry":
            self._retry()
        else:
            self._say("\n".join(HANDLERS[command.name](self._session, args)))
        return False

    def _run_turn(self, text: str) -> None:
        result = self._session.run_turn(text)
        for unread in result["unread_steering"]:
            self.submit(unread)
        if result["error"]:
            self._say(result["error"], "error")
        self._events.put(
            TurnEnded("" if result["error"] else result["final_response"], result["completed"], result["interrupted"])
        )

    def _retry(self) -> None:
        text = self._session.take_back()
        if text is None:
            self._say("There is no question to ask again.")
        else:
            self._run_turn(text)

    def _run_plugin_command(self, text: str) -> None:
        name, _, args = text.strip().removeprefix("/").partition(" ")
        handler = get_plugin_command_handler(name)
        if handler is not None:
            answer = resolve_plugin_command_result(handler(args.strip()))
            self._say(str(answer)) if answer else None
            return
        near = commands.close_matches(text)
        hint = f"Did you mean {' or '.join(near)}?" if near else "/help lists the commands."
        self._say(f"There is no command /{name}. {hint}", "warning")

    def _say(self, text: str, level: str = "info") -> None:
        self._events.put(Notice(text, level))

    def _warm_up(self) -> None:
        """While the person types, load what the first answer needs; a failure shows again, and clearly, in the turn."""
        try:
            runtime = connect_runtime(self._session.runtime)
            release_client(build_client(runtime.api_mode, api_key=runtime.api_key, base_url=runtime.base_url))
        except Exception:
            log.debug("warming up failed", exc_info=True)


def _banner(session: ChatSession) -> list[str]:
    runtime = session.runtime
    lines = [f"Hermes {VERSION} · {runtime.model} ({runtime.facts.label}) · {runtime.source}"]
    if runtime.provider == "embedded":
        lines.append("This small model runs on this machine, needs no key and has no tools. For a real one, set a key:")
        lines.append("  hermes config set OPENROUTER_API_KEY KEY   (or OPENAI_API_KEY, ANTHROPIC_API_KEY, …)")
    lines.append("/help shows the commands, Ctrl-C stops an answer, /quit leaves.")
    return lines
