"""What clients of the API are told of a run while it runs: its events under the names that they know, and its text.

Who is sent the text in pieces joins them, and cannot take anything back. A text that begins anew goes on for such a
reader if it begins with what was sent. If it does not, the stream has to end with an error: what the client has joined
is then never taken for the answer.
"""

from collections.abc import Mapping
from typing import Any

from gateway.http.api.problems import ApiProblem
from gateway.http.api.runs.run_record import Record, RunEnded, RunEvent, TextVoid
from gateway.http.api.runs.tickets import RUN
from gateway.http.calls import write_question
from gateway.platforms.face import Asking, Begun
from gateway.platforms.hub import StreamEnded
from hermes_base import chat
from hermes_base.chat import TextDelta, TextEnded, ToolEnded
from hermes_base.inbound import as_fields

#: What clients of the API know the events as.
EVENT_NAMES: Mapping[type, str] = {
    **{kind: name.replace("_", ".") for kind, name in chat.EVENT_NAMES.items()},
    TextVoid: "text.ended",
    Begun: "run.started",
    Asking: "question",
    RunEnded: "run.ended",
    StreamEnded: "closing",
}
STOPPING = (
    "Hermes is stopping; the message is kept, and the run goes on when Hermes runs again. Ask for it by its id: {id}."
)
PARTED = (
    "The model's answer broke off and was begun anew, and it is not the one that was streamed so far. The run goes on, "
    "and nothing has to be asked again: GET /v1/runs/{id} has its whole answer."
)


class SentText:
    """What one reader has been sent, and what comes next for it."""

    def __init__(self, record: Record) -> None:
        self._record = record
        self._sent: list[str] = []
        self._length = 0  # of what was sent
        self._place = 0  # so much of it is the text as it stands now
        self._kept = 0  # so much of that is not taken back any more
        self.problem: ApiProblem | None = None  # what was sent is not the beginning of the text any more

    def take(self, event: RunEvent) -> str:
        """What of an event's text is new for the reader."""
        match event:
            case TextDelta(text):
                return self._grow(text)
            case TextEnded(kept=True):
                self._kept = self._place
            case TextEnded():
                self._place = self._kept
            case TextVoid():
                self._place = self._kept = 0
        return ""

    def finish(self, text: str) -> None:
        """The run has ended, with this text."""
        if text.strip() != "".join(self._sent).strip():
            self._part()

    def _grow(self, piece: str) -> str:
        if self._place < self._length:
            whole = "".join(self._sent)
            self._sent = [whole]
            known = whole[self._place : self._place + len(piece)]
            if not piece.startswith(known):
                self._part()
                return ""
            self._place += len(known)
            piece = piece[len(known) :]
        self._sent.append(piece)
        self._place += len(piece)
        self._length = max(self._length, self._place)
        return piece

    def _part(self) -> None:
        self.problem = ApiProblem(502, PARTED.format(id=self._record.ticket.write(RUN)), "begun_anew")


def describe_event(event: RunEvent) -> dict[str, Any]:
    """What clients of the API are told of an event, beside its name."""
    match event:
        case Begun():
            return {}
        case TextVoid():
            return {"kept": False, "all": True}
        case ToolEnded():
            return {**as_fields(event), "seconds": round(event.seconds, 3)}
        case Asking(question):
            return {"question": write_question(question)}
    return as_fields(event)


def problem_with(record: Record) -> ApiProblem | None:
    """Why there is no answer; None: there is one."""
    if record.outcome is None:
        return ApiProblem(503, STOPPING.format(id=record.ticket.write(RUN)), "closing")
    if record.outcome.refused:
        return ApiProblem(429, record.outcome.error, "not_taken")
    if record.outcome.error:
        return ApiProblem(502, record.outcome.error, "run_failed")
    if record.outcome.interrupted and not record.outcome.text:
        return ApiProblem(502, record.outcome.reason, "interrupted")
    return None
