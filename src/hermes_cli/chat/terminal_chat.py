"""The chat on a screen: a line to type on that is always there, and above it everything that happens.

What is finished is written once and scrolls away; only the region around the typed line is drawn again.
"""

import asyncio
import time
from collections import deque
from collections.abc import Sequence
from contextlib import suppress

from prompt_toolkit.patch_stdout import patch_stdout

from hermes_base.chat import Asked, ChatHost, Closed, Event, Idle, Question, TextDelta, TurnEnded
from hermes_cli.chat import terminal_words as words
from hermes_cli.chat.terminal_events import SIGNALLED, FeedEnded, carry_events, find_endings
from hermes_cli.chat.terminal_input import HISTORY_FILE, TypedLine
from hermes_cli.chat.terminal_render import Renderer
from hermes_cli.chat.terminal_screen import Screen, divert_logs
from hermes_cli.chat.terminal_view import TerminalView
from hermes_constants import get_hermes_home

LEFT, INTERRUPTED = 0, 130
_SHORTEST_PAUSE = 0.04  # seconds between two drawings
_TICK = 0.25  # seconds between two drawings while nothing happens but a turn runs
_SHARE = 8  # drawing may take one part in so many of the time


def chat_on_screen(host: ChatHost, banner: Sequence[str], display: words.Display, hint: str = "") -> int:
    """Chat until the person or the host ends it; the exit code. `hint` stays under the typed line."""
    return asyncio.run(ScreenChat(host, display, hint).run(banner))


class ScreenChat:
    """What was typed, what runs, and what is asked; the keys call into it, and the events."""

    def __init__(self, host: ChatHost, display: words.Display, hint: str = "") -> None:
        self._host = host
        self._hint = hint
        self._line = TypedLine(get_hermes_home() / HISTORY_FILE, getattr(host, "commands", ()))
        self._screen = Screen(self._line, self)
        self._view = TerminalView(display, Renderer(self._screen.find_width))
        self._arrived: deque[Event | FeedEnded] = deque()
        self._wake = asyncio.Event()
        self._questions: deque[tuple[Question, float]] = deque()  # open ones, each with the time it expires
        self._draft = ""  # what was on the line when a question came
        self._busy = False
        self._stopping = False
        self._about_to_leave = False

    async def run(self, banner: Sequence[str]) -> int:
        for line in banner:
            self._view.notice(line)
        self._screen.write_alone(self._view.pop_finished())
        self._wake.set()  # draw the first region
        loop = asyncio.get_running_loop()

        def receive(event: Event | FeedEnded) -> None:
            self._arrived.append(event)
            with suppress(RuntimeError):  # the chat has ended, and its loop with it
                loop.call_soon_threadsafe(self._wake.set)

        with patch_stdout(raw=True), divert_logs():
            carry_events(self._host, receive)
            showing = asyncio.create_task(self._show_events())
            showing.add_done_callback(self._end_with_failure)
            for number in find_endings():  # as /quit: the turn under way is not stopped
                loop.add_signal_handler(number, self._screen.leave, SIGNALLED + number)
            try:
                return await self._screen.run()
            finally:
                showing.cancel()
                for text in (self._draft, self._line.text):  # typed and not sent: the next chat can recall it
                    self._line.history.append_string(text)
                self._view.flush()
                self._screen.write_alone(self._view.pop_finished())

    # --- what the screen asks for

    def draw_above(self, rows: int) -> str:
        """What stands above the typed line and still changes."""
        doing = ""
        if self._busy and not self._questions:
            doing = "stopping, Ctrl-C again leaves" if self._stopping else "working, Ctrl-C stops"
        return self._view.draw_live(rows=rows, doing=doing)

    def name_prompt(self) -> str:
        return "answer › " if self._questions else "› "

    def name_hint(self) -> str:
        """The line below the typed one."""
        if self._about_to_leave:
            return "Ctrl-C again leaves"
        return "Ctrl-D gives no answer" if self._questions else self._hint

    # --- what the keys do

    def accept(self) -> None:
        """Enter."""
        if self._line.continue_line() or not self._line.text.strip():
            return
        text = self._line.take()
        if self._questions and not words.read_command(text):
            self._answer(text)
        else:
            self._send(text)
        self._write()

    def press(self) -> None:
        """Ctrl-C: stops what runs; otherwise clears the line, and leaves when there is nothing to clear."""
        if self._busy:
            self._stop()
        elif self._about_to_leave and not self._line.buffer.text:
            self._screen.leave(LEFT)
        elif self._host.stop():  # a turn that nobody here began
            self._busy = self._stopping = True
        else:
            self._line.clear()
            self._about_to_leave = True

    def end_input(self) -> None:
        """Ctrl-D on an empty line."""
        if self._questions:
            self._give_answer("")
            self._write()
        else:
            self._screen.leave(LEFT)

    def note_typing(self) -> None:
        self._about_to_leave = False

    # --- sending and answering

    def _send(self, text: str) -> None:
        """Submit a text; while something runs, the gateway decides whether it waits, steers or interrupts."""
        command = words.read_command(text)
        if self._busy and command is not None and command.name in ("stop", "quit"):
            self._view.echo(text)
            self._stop() if command.name == "stop" else self._screen.leave(LEFT)
        else:
            self._submit(text)

    def _submit(self, text: str) -> None:
        self._view.echo(text)
        if not self._busy:
            self._view.begin()
        self._busy = True
        self._host.submit(text)

    def _stop(self) -> None:
        """Stop what runs; asked again, do not wait for it."""
        if self._stopping:
            self._screen.leave(INTERRUPTED)
            return
        self._stopping = True
        self._drop_questions()
        self._host.stop()

    def _answer(self, typed: str) -> None:
        question = self._questions[0][0]
        answer = words.read_answer(question, typed)
        if answer is None:
            self._view.notice(words.describe_ways_to_answer(question), "warning")
        else:
            self._view.echo(answer)
            self._give_answer(answer)

    def _give_answer(self, answer: str) -> None:
        question, _ = self._questions.popleft()
        if not self._host.answer(question.id, answer):
            self._view.notice("The question is not open any more; the answer was not used.", "warning")
        self._ask_next()

    def _ask(self, question: Question) -> None:
        self._questions.append((question, time.monotonic() + question.expires_in))
        if len(self._questions) == 1:
            self._draft = self._line.text
            self._line.clear()
            self._view.ask(question)

    def _ask_next(self) -> None:
        """Show the next question; after the last, give the line back as it was."""
        if self._questions:
            self._view.ask(self._questions[0][0])
        elif self._draft:
            self._line.put(self._draft)
            self._draft = ""

    def _drop_questions(self) -> None:
        if self._questions:
            self._questions.clear()
            self._ask_next()

    # --- showing what happens

    async def _show_events(self) -> None:
        """Draw what came in, as often as it costs little."""
        while True:
            with suppress(TimeoutError):
                async with asyncio.timeout(_TICK if self._busy else None):
                    await self._wake.wait()
            self._wake.clear()
            begun = time.monotonic()
            self._take_arrived()
            while self._questions and self._questions[0][1] < time.monotonic():
                self._questions.popleft()
                self._view.notice("Nobody answered in time, and that means no.", "warning")
                self._ask_next()
            self._write()
            await asyncio.sleep(max(_SHORTEST_PAUSE, (time.monotonic() - begun) * _SHARE))

    def _take_arrived(self) -> None:
        text: list[str] = []  # pieces that came together are drawn together
        while self._arrived:
            event = self._arrived.popleft()
            if isinstance(event, TextDelta):
                text.append(event.text)
                continue
            if text:
                self._view.show(TextDelta("".join(text)))
                text.clear()
            self._take(event)
        if text:
            self._view.show(TextDelta("".join(text)))

    def _take(self, event: Event | FeedEnded) -> None:
        match event:
            case Asked(question):
                self._ask(question)
            case Idle():
                self._view.flush()
                self._drop_questions()
                self._busy = self._stopping = False
            case FeedEnded(error) if error is not None:
                raise error
            case Closed() | FeedEnded():
                self._screen.leave(LEFT)
            case TurnEnded():
                self._drop_questions()
                self._view.show(event, stopped_here=self._stopping)
            case _:
                self._view.show(event)

    def _write(self) -> None:
        self._screen.write(self._view.pop_finished())

    def _end_with_failure(self, showing: asyncio.Task[None]) -> None:
        if not showing.cancelled() and (error := showing.exception()) is not None:
            self._screen.fail(error)
