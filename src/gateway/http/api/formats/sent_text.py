"""The text of a run for a reader who cannot take anything back, such as a client that joins the pieces of a stream.

A text that begins anew goes on for such a reader if it begins with what was sent. If it does not, the stream has to end
with an error: what the client has joined is then never taken for the answer.
"""

from gateway.http.api.problems import ApiProblem
from gateway.http.api.runs.run_record import TEXT, TEXT_ENDED, Record, RunEvent
from gateway.http.api.runs.tickets import RUN

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
        if event.kind == TEXT_ENDED and event.data["kept"]:
            self._kept = self._place
        elif event.kind == TEXT_ENDED:
            self._kept = 0 if event.data.get("all") else self._kept
            self._place = self._kept
        elif event.kind == TEXT:
            return self._grow(str(event.data["text"]))
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
