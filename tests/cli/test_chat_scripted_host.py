"""A chat host that plays scripts, for the tests of the terminal chat; run as a program it opens the chat with it."""

import queue
import sys
import threading
import time

from hermes_base.chat import (
    Answer,
    Asked,
    ChatHost,
    Closed,
    Idle,
    Notice,
    Question,
    ReasoningDelta,
    TextDelta,
    TextEnded,
    ToolEnded,
    ToolStarted,
    TurnEnded,
)

MARKDOWN = """# A title

Some **bold** text with `code` and a [link](https://example.org).
A second line.

1. first
2. second

   with more

```python
def answer(question: str) -> int:
    return 42
```

| a | b |
|---|---|
| 1 | 2 |

Done."""

LONG = "\n\n".join(f"Paragraph {n} of a long answer, with enough words to wrap somewhere." for n in range(60))


class ScriptedHost:
    """Does what the first word of a message says, on a worker thread, like a real host."""

    def __init__(self, pause: float = 0.0) -> None:
        self.submitted: list[str] = []
        self.files: list = []
        self.answers: list[tuple[str, str]] = []
        self.stops = 0
        self.closed = False
        self.pause = pause
        self._events: queue.SimpleQueue = queue.SimpleQueue()
        self._work: queue.SimpleQueue = queue.SimpleQueue()
        self._boxes: dict[str, queue.SimpleQueue] = {}
        self._stop = threading.Event()
        self._running = False
        threading.Thread(target=self._work_on, daemon=True).start()

    # --- ChatHost

    def submit(self, text, files=()):
        self.submitted.append(text)
        self.files.extend(files)
        self._work.put(text)

    def events(self):
        while True:
            event = self._events.get()
            if isinstance(event, Exception):
                raise event
            yield event
            if isinstance(event, Closed):
                return

    def stop(self):
        self.stops += 1
        running, _ = self._running, self._stop.set()
        for box in list(self._boxes.values()):
            box.put(Answer("", given=False))
        return running

    def answer(self, question_id, text):
        self.answers.append((question_id, text))
        if question_id not in self._boxes:
            return False
        self._boxes[question_id].put(Answer(text))
        return True

    def close(self):
        self.closed = True
        self._stop.set()
        self._events.put(Closed())

    # --- scripts

    def emit(self, *events):
        for event in events:
            self._events.put(event)

    def _work_on(self):
        while True:
            text = self._work.get()
            self._stop.clear()
            word = text.split()[0] if text.split() else ""
            self._running = not word.startswith("/")
            if word == "/quit":
                self.emit(Closed())
                return
            if word == "die":
                self.emit(RuntimeError("the host is gone"))
                return
            getattr(self, f"_do_{word.lstrip('/')}", self._echo)(text)
            self._running = False
            self.emit(Idle())

    def _stream(self, text, size=7):
        for start in range(0, len(text), size):
            self.emit(TextDelta(text[start : start + size]))
            time.sleep(self.pause)

    def _end(self, text):
        self._stream(text)
        self.emit(TurnEnded(text, completed=True))

    def _echo(self, text):
        self._end(f"You said: {text}" if len(text) < 200 else f"You said {len(text)} characters.")

    def _do_markdown(self, _text):
        self._end(MARKDOWN)

    def _do_long(self, _text):
        self._end(LONG)

    def _do_usage(self, _text):
        self.emit(Notice("tokens: 12"))

    def _do_slow(self, _text):
        self.emit(TextDelta("Thinking about it"))  # in one piece: a terminal draws what is new, wherever it was cut
        if self._stop.wait(60):
            self.emit(TurnEnded("Thinking about it", completed=False, interrupted=True))
        else:
            self.emit(TurnEnded("Thinking about it", completed=True))

    def _do_stuck(self, _text):
        self.emit(TextDelta("Not listening"))  # in one piece, as above
        time.sleep(60)

    def _do_silent(self, _text):
        self.emit(TurnEnded("Said at once.", completed=True))

    def _do_fail(self, _text):
        self.emit(Notice("The model does not answer. Nothing was lost. Try again.", "error"), TurnEnded("", False))

    def _do_tools(self, _text):
        self.emit(ReasoningDelta("I should look.\nThen answer."))
        self._stream("Let me look.")
        self.emit(TextEnded(kept=True))
        self.emit(ToolStarted("t1", "read_file", "notes.txt"), ToolStarted("t2", "terminal", "ls -l"))
        time.sleep(self.pause * 30)
        self.emit(ToolEnded("t1", "read_file", True, 0.21, "3 lines"))
        self.emit(ToolEnded("t2", "terminal", False, 12.0, "exit code 2\nno such folder"))
        self._end("Found it.")

    def _do_ask(self, _text):
        question = Question("approval", "Run `rm -r build`?", ("once", "always", "deny"), id="q1")
        self._end(f"The answer was {self._wait_for(question)!r}.")

    def _do_clarify(self, _text):
        self._end(f"The answer was {self._wait_for(Question('clarification', 'Which one?', id='q2'))!r}.")

    def _wait_for(self, question):
        box = self._boxes[question.id] = queue.SimpleQueue()
        self.emit(Asked(question))
        answer = box.get()
        del self._boxes[question.id]
        return answer.text if answer.given else None

    def _do_escape(self, _text):
        self._end("\x1b[31mred\x1b[0m\x07 \udc80 and \x9b2J gone")


def test_the_scripted_host_is_a_chat_host():
    host: ChatHost = ScriptedHost()
    host.submit("hello")
    events = host.events()
    assert isinstance(next(events), TextDelta)
    host.close()


if __name__ == "__main__":
    from hermes_cli.chat.terminal_chat import chat_on_screen
    from hermes_cli.chat.terminal_words import Display

    scripted = ScriptedHost(pause=float(sys.argv[1]) if len(sys.argv) > 1 else 0.0)
    progress = sys.argv[2] if len(sys.argv) > 2 else "short"
    code = chat_on_screen(scripted, ["Hermes, played by a script"], Display("plain" not in sys.argv, progress, True))
    print(f"left with {code}; stops={scripted.stops} submitted={len(scripted.submitted)}")
    sys.exit(code)
