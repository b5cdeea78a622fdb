"""The chat without a screen: one question with its answer on stdout, or lines in and plain text out."""

import signal
from collections.abc import Callable
from dataclasses import dataclass, field
from enum import Enum, auto
from typing import BinaryIO, TextIO

from hermes_base.chat import (
    Asked,
    ChatHost,
    Closed,
    Event,
    FileSent,
    Idle,
    Notice,
    Question,
    ReasoningDelta,
    Said,
    TextDelta,
    TextEnded,
    ToolEnded,
    ToolStarted,
    TurnEnded,
)
from hermes_base.inbound import FileRef
from hermes_cli.chat import terminal_words as words
from hermes_cli.chat.terminal_events import ENDINGS, SIGNALLED, Feed, FeedEnded, Pressed

#: Exit codes. UNASKED: it went on without an answer to a question, since nobody could be asked.
ANSWERED, FAILED, UNASKED = 0, 1, 3
#: The signals that stop the turn. Nobody is left to read the answer to one question; a chat that is told to end leaves
#: as with /quit, and its turn goes on.
_STOP_QUESTION, _STOP_LINE = frozenset({signal.SIGINT, *ENDINGS}), frozenset({signal.SIGINT})


class Lines:
    """Lines of a byte stream as text, whatever the bytes are."""

    def __init__(self, stream: BinaryIO, ask: Callable[[], None] = lambda: None) -> None:
        self._stream = stream
        self._ask = ask  # shows that a line is awaited

    def read(self) -> str | None:
        """The next line without its end; None at the end of the input, or when the terminal is gone."""
        self._ask()
        try:
            line = self._stream.readline()
        except OSError:
            return None
        return line.decode("utf-8", "replace").rstrip("\r\n") if line else None


@dataclass(slots=True)
class SubmitOutcome:
    """What became of one submitted text."""

    stops: frozenset[int]  # the signals that stop the turn; with others it is left
    ended: TurnEnded | None = None
    levels: set[str] = field(default_factory=set)  # of the notes that came
    signal: int = 0  # the first one that came
    heard: bool = True  # whether the turn was told to stop, if it was to be
    left: bool = False  # it is not waited for: another signal came, or the host is gone
    unasked: bool = False  # there was a question, and nobody to answer it


class Shows(Enum):
    """What is written of a turn's texts. Nothing that was written can be taken back here."""

    LETTERS = auto()  # all of them as they come, for eyes; one that does not count is followed by a word on that
    TEXTS = auto()  # each as soon as it stands, for programs
    ANSWER = auto()  # the last one alone, when the turn has ended
    NOTE = auto()  # there is no turn: a note is the answer


class PlainView:
    """Writes events as plain text: the answer to `out`, other words to `side`, faults and progress to `notes`."""

    def __init__(self, out: TextIO, side: TextIO, notes: TextIO, display: words.Display, shows: Shows) -> None:
        self._out = out
        self._side = side
        self._notes = notes
        self._display = display
        self._shows = shows
        self._open: list[str] = []  # the text under way
        self._asked: dict[str, str] = {}  # tools under way and what they were asked for
        self._unfinished: TextIO | None = None  # the stream whose last line has no end yet
        self._explained = False

    def show(self, event: Event, *, stopped_here: bool = False) -> None:
        match event:
            case TextDelta(text):
                self._open.append(text)
                if self._shows is Shows.LETTERS:
                    self._write(self._out, words.clean_shown(text))
            case ReasoningDelta(text) if self._display.reasoning:
                self._write(self._notes, words.clean_shown(text))
            case TextEnded(kept):
                self._end_text(kept)
            case ToolStarted():
                self._asked[event.id] = event.preview
                if self._display.tool_progress == "full":
                    self.say(self._notes, words.describe_start(event))
            case ToolEnded() if self._display.tool_progress == "full":
                for line in words.describe_outcome(event, self._asked.pop(event.id, "")):
                    self.say(self._notes, line)
            case ToolEnded() if self._display.tool_progress == "short":
                self.say(self._notes, words.describe_end(event, self._asked.pop(event.id, "")))
            case Notice(text, level):
                self._explained |= level == "error"
                told = self._out if self._shows is Shows.NOTE else self._side
                self.say(told if level == "info" else self._notes, words.clean_shown(text))
            case Said():
                self.say(self._side, words.describe_said(event))
            case FileSent():
                self.say(self._side, words.describe_file(event))
            case TurnEnded():
                self._end_turn(event, stopped_here)

    def ask(self, question: Question) -> None:
        for line in words.describe_question(question):
            self.say(self._side, line)

    def hint(self, text: str) -> None:
        self.say(self._notes, text)

    def say(self, stream: TextIO, text: str) -> None:
        """Write whole lines."""
        self._end_line()
        print(text, file=stream, flush=True)

    def _end_text(self, kept: bool) -> None:
        text, self._open = "".join(self._open), []
        if self._shows is Shows.TEXTS and kept:
            self._write(self._out, words.clean_shown(text))
        if text and self._shows is not Shows.ANSWER:
            self._end_line()
        if text and self._shows is Shows.LETTERS and not kept:
            self.hint(words.BEGINS_ANEW)

    def _write(self, stream: TextIO, text: str) -> None:
        """Write a part of a line; a part for another stream starts on a line of its own."""
        if self._unfinished is not stream:
            self._end_line()
        if text:
            stream.write(text)
            stream.flush()
            self._unfinished = None if text.endswith("\n") else stream

    def _end_line(self) -> None:
        if self._unfinished is not None:
            print(file=self._unfinished, flush=True)
            self._unfinished = None

    def _end_turn(self, event: TurnEnded, stopped_here: bool) -> None:
        shown = "".join(self._open) if self._shows is Shows.LETTERS else ""
        missing = words.find_missing(shown, event.answer) if event.answer else ""
        if missing is None:
            self._end_text(kept=False)
        self._write(self._out, words.clean_shown(event.answer if missing is None else missing))
        self._end_line()
        ending = words.describe_ending(event, stopped_here=stopped_here, explained=self._explained)
        if ending:
            self.hint(ending)
        self._open = []
        self._explained = False


class PlainChat:
    """Submits texts one after the other and shows what comes of each."""

    def __init__(self, host: ChatHost, view: PlainView, lines: Lines | None) -> None:
        self._host = host
        self._view = view
        self._lines = lines  # None: nobody can be asked
        self._kept: list[str] = []  # read already, to be dealt with next
        self._feed = Feed(host)

    def answer_one(self, text: str, files: tuple[FileRef, ...] = ()) -> int:
        """Ask one question; the exit code."""
        with self._feed.catch_presses():
            try:
                outcome = self._submit(text, files, SubmitOutcome(_STOP_QUESTION))
            except BaseException:  # the reader of the output is gone, for example: that stops the turn, too
                self._host.stop()
                raise
        if outcome.signal:
            return SIGNALLED + outcome.signal
        answered = UNASKED if outcome.unasked else ANSWERED
        if outcome.ended is None:  # a slash command has no turn
            return FAILED if "error" in outcome.levels or outcome.levels == {"warning"} else answered
        return answered if outcome.ended.completed and not outcome.ended.interrupted else FAILED

    def answer_lines(self) -> int:
        """Take each line as a message until the input or the chat ends; the exit code."""
        code = ANSWERED
        with self._feed.catch_presses():
            while (line := self._read()) is not None:
                if not line.strip():
                    continue
                outcome = self._submit(line, (), SubmitOutcome(_STOP_LINE))
                code = UNASKED if outcome.unasked else code
                if outcome.left:
                    return SIGNALLED + outcome.signal if outcome.signal else code
        return code

    def _read(self) -> str | None:
        if self._kept:
            return self._kept.pop()
        if self._lines is None:
            return None
        with self._feed.reading():
            return self._lines.read()

    def _submit(self, text: str, files: tuple[FileRef, ...], outcome: SubmitOutcome) -> SubmitOutcome:
        """Hand a text over and show events until it is dealt with."""
        self._host.submit(text, files)
        while not outcome.left:
            match self._feed.take():
                case Idle():
                    break
                case Pressed(number):
                    self._obey(number, outcome)
                case Closed():
                    outcome.left = True
                case FeedEnded(error):
                    if error is not None:
                        raise error
                    outcome.left = True
                case Asked(question):
                    self._ask(question, outcome)
                case event:
                    if isinstance(event, TurnEnded):
                        outcome.ended = event
                    outcome.levels |= {event.level} if isinstance(event, Notice) else set()
                    if not outcome.heard and isinstance(event, TextDelta | ReasoningDelta | ToolStarted):
                        outcome.heard = self._host.stop()  # it had not begun when it was to be stopped
                    self._view.show(event, stopped_here=bool(outcome.signal))
        return outcome

    def _obey(self, number: int, outcome: SubmitOutcome) -> None:
        """The first signal stops the turn or leaves it; the second does not wait for it."""
        outcome.left = bool(outcome.signal) or number not in outcome.stops
        outcome.signal = outcome.signal or number
        if not outcome.left:
            outcome.heard = self._host.stop()

    def _ask(self, question: Question, outcome: SubmitOutcome) -> None:
        """Read lines until one answers the question; where nobody can give one, say so and go on."""
        if self._lines is None:
            self._go_on_unasked(question, outcome)
            return
        self._view.ask(question)
        while True:
            try:
                line = self._read()
            except KeyboardInterrupt as pressed:
                self._obey(pressed.args[0], outcome)
                return
            if line is None:
                self._go_on_unasked(question, outcome)
                return
            if words.read_command(line) is not None:
                self._host.answer(question.id, "")
                self._kept.append(line)  # it comes next
                return
            answer = words.read_answer(question, line)
            if answer is not None:
                if not self._host.answer(question.id, answer):
                    self._view.hint("The question is not open any more; the answer was not used.")
                return
            self._view.hint(words.describe_ways_to_answer(question) if question.choices else "Please type an answer.")

    def _go_on_unasked(self, question: Question, outcome: SubmitOutcome) -> None:
        """Nobody can answer: that is a no, and the person reads about it."""
        outcome.unasked = True
        self._view.hint(words.describe_unasked(question))
        self._host.answer(question.id, "")
