"""Takes thoughts out of a text: models without a field for them write them before the answer, between marks."""

from agent.formats.reply import Tell

#: The marks of local models, and of Gemini when it is asked for its thoughts.
_THOUGHT_MARKS = (
    ("<think>", "</think>"),
    ("<thinking>", "</thinking>"),
    ("<thought>", "</thought>"),
    ("[THINK]", "[/THINK]"),
)


class ThoughtSplitter:
    """Sends thoughts that stand between marks at the start of a text to reasoning, wherever a stream cuts the marks."""

    def __init__(self, tell_text: Tell, tell_reasoning: Tell) -> None:
        self._tell_text = tell_text
        self._tell_reasoning = tell_reasoning
        self._held = ""  # not yet known to be text or a thought
        self._close = ""  # the mark that ends the open thought
        self._found = self._told = False

    def feed(self, piece: str) -> bool:
        """True: the answer itself has begun, and everything after it is text."""
        self._held += piece
        while self._close or self._open():
            if not self._reach_close():
                return False
        start = self._held.lstrip()
        if any(mark.startswith(start) for mark, _ in _THOUGHT_MARKS):
            return False
        self._release()
        return True

    def finish(self) -> None:
        if self._close:
            self._tell(self._held)
        else:
            self._release()

    def _open(self) -> bool:
        start = self._held.lstrip()
        for mark, close in _THOUGHT_MARKS:
            if start.startswith(mark):
                self._held, self._close, self._found = start[len(mark) :], close, True
                return True
        return False

    def _reach_close(self) -> bool:
        thought, closed, rest = self._held.partition(self._close)
        if closed:
            self._tell(thought)
            self._held, self._close = rest, ""
            return True
        # What could be the beginning of the mark is held back.
        sizes = range(min(len(thought), len(self._close) - 1), 0, -1)
        sure = len(thought) - next((size for size in sizes if thought.endswith(self._close[:size])), 0)
        self._tell(thought[:sure])
        self._held = thought[sure:]
        return False

    def _release(self) -> None:
        """The white space between a thought and the text belongs to neither."""
        text = self._held.lstrip() if self._found else self._held
        self._held = ""
        if text:
            self._tell_text(text)

    def _tell(self, thought: str) -> None:
        thought = thought if self._told else thought.lstrip()
        if thought:
            self._told = True
            self._tell_reasoning(thought)
