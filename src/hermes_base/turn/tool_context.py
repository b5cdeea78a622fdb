"""What a tool is told about the turn it works for: it takes it as `context=`, or does without."""

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from hermes_base.chat import Asker
from hermes_base.inbound import FileRef
from hermes_base.settings import Settings
from hermes_base.text.foreign import ForeignText
from hermes_base.turn.cancel import CancelToken
from hermes_base.turn.messaging import Messenger

#: Tells the conversation of a task that something ended outside of a turn, such as a background process: the task, an
#: id, a text.
PostNotice = Callable[[str, str, str], None]
#: Hands a file to the person in the chat: the file, a caption, and what the file held when it was checked.
FileSender = Callable[[FileRef, str, bytes], None]
#: Finds what was said in earlier sessions: the words, and the most hits that are wanted.
Searcher = Callable[[str, int], Sequence[Mapping[str, Any]]]
#: A text of the model in use, charged to the conversation: the messages, and the most tokens of the answer.
ModelAsker = Callable[[Sequence[Mapping[str, Any]], int], str]


def name_turn(session: str, task: str, turn: str) -> str:
    """The name of a turn for plugins, which read session and task out of it."""
    return f"{session}:{task}:{hashlib.blake2s(turn.encode(), digest_size=4).hexdigest()}"


@dataclass(frozen=True, slots=True)
class ToolContext:
    task: str = ""  # owner of shells and processes
    session: str = ""
    conversation: str = ""
    turn: str = ""
    call: str = ""  # the model's name for this call
    folder: str = "."  # where the conversation works
    home: Path | None = None
    own: Path | None = None  # the person's own folder in the home; None: the owner's, the home itself
    person: str = ""  # whom the turn works for; empty: the owner
    sender: str = ""  # who asked for the turn; empty: not known
    cancel: CancelToken = field(default_factory=CancelToken)
    asker: Asker | None = None  # None: nobody can be asked
    settings: Settings = field(default_factory=Settings)
    redact: Callable[[str], str] = str
    post_notice: PostNotice | None = None
    search: Searcher | None = None
    tell_model: Callable[[str], None] | None = None  # a note that goes along with the next user message, once
    send_file: FileSender | None = None  # None: nobody can take a file
    messenger: Messenger | None = None  # None: no message can be sent to others
    window_tokens: int = 0  # 0: unknown
    note_activity: Callable[[], None] | None = None  # says that a call which takes its time moves on (C12)
    ask_model: ModelAsker | None = None  # None: the model writes nothing for tools
    indirect: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)  # tools behind `use_tool`, by name
    foreign: ForeignText = field(default_factory=ForeignText)  # a tool that hands over others' text notes it (G9)

    @property
    def told_turn(self) -> str:
        """The turn as plugins are told of it."""
        return name_turn(self.session, self.task, self.turn)

    def added_roots(self) -> tuple[str, ...]:
        """Folders that the owner opened to tools: `files.roots` for their own turns, `people.roots` for others'."""
        return self.settings.files.roots if self.own is None else self.settings.people.roots
