"""What came of a message: read from the answers in the outbox, the text that was streamed, and the transcript. Pure."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from hermes_base.chat import GAP
from hermes_base.inbound import ANSWER, FILE, NOTE, FileRef, Outgoing
from hermes_base.query_values import ASSISTANT, USER, TimelineEntry

NO_ANSWER = "The message was taken, and nothing was said to it."


@dataclass(frozen=True, slots=True)
class RunOutcome:
    """How a run ended."""

    text: str = ""  # all that the assistant said
    error: str = ""  # why there is no answer; empty: there is one
    refused: bool = False  # nobody began with it: not now
    interrupted: bool = False
    reason: str = ""  # of an interrupted one: who or what stopped it
    early: str = ""  # why an answer stopped before its end (EARLY_ENDS); empty: it is whole
    files: tuple[FileRef, ...] = ()
    session: str = ""
    model: str = ""  # which one answered, as far as it is known
    usage: Mapping[str, int] = field(default_factory=dict)


def read_outcome(answers: Sequence[Outgoing], streamed: str, entries: Sequence[TimelineEntry] = ()) -> RunOutcome:
    """`streamed` is what was shown live, `entries` the end of the transcript, for what was not seen live."""
    files = tuple(said.file for said in answers if said.kind == FILE and said.file is not None)
    answer = next((said for said in reversed(answers) if said.kind == ANSWER), None)
    if answer is None:
        # A command answers with notes; a message that was turned away, with a warning.
        notes = [said for said in answers if said.kind == NOTE]
        told = "\n".join(note.text for note in notes)
        if told and all(note.level == "info" for note in notes):
            return RunOutcome(told, files=files)
        return RunOutcome("", told or NO_ANSWER, refused=bool(told), files=files)
    if answer.interrupted:
        said = answer.text.removesuffix(f"({answer.reason})").rstrip()
        return RunOutcome(_whole(said, streamed, entries), interrupted=True, reason=answer.reason, files=files)
    if not answer.completed:
        return RunOutcome(streamed, answer.text or NO_ANSWER, files=files)
    return RunOutcome(_whole(answer.text, streamed, entries), early=answer.reason, files=files)


def _whole(answer: str, streamed: str, entries: Sequence[TimelineEntry]) -> str:
    """All texts of the turn, of which `answer` is the last. What was streamed is the truth if it ends with it."""
    if streamed.rstrip().endswith(answer.strip()):
        return streamed
    return join_turn(entries, answer) or answer


def join_turn(entries: Sequence[TimelineEntry], answer: str) -> str:
    """The texts of the turn that ended with this answer; empty: it is not among the entries."""
    texts: list[str] = []
    for entry in reversed(entries):
        if texts and entry.kind == USER:
            break
        if entry.kind == ASSISTANT and entry.text.strip() and (texts or entry.text.strip() == answer.strip()):
            texts.append(entry.text.strip())
    return GAP.join(reversed(texts))


def find_model(entries: Sequence[TimelineEntry]) -> str:
    """The model that wrote the last answer."""
    wrote = next((entry.model for entry in reversed(entries) if entry.kind == ASSISTANT), "")
    return wrote.partition("/")[2]
