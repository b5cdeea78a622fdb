"""What a client asks, whatever format it came in: who said what, where, and how it wants the answer."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from gateway.http.api.formats.images import Image
from hermes_base.chat import GAP
from hermes_base.query_values import PastExchange
from hermes_base.text.wrappers import HEAD_BEGINS, HEAD_ENDS

MODEL = "hermes"  # whatever answers here
#: No conversation here begins with an answer, and no message is without words.
NOTHING_ASKED = "(Nothing was asked.)"
ONLY_IMAGES = "(See the image.)"


@dataclass(frozen=True, slots=True)
class ClientMessage:
    """One message of the client's list, read."""

    role: str  # system, user, assistant
    text: str
    images: tuple[Image, ...] = ()


@dataclass(frozen=True, slots=True)
class Ask:
    """One question with what was said before it."""

    said: str
    head: str = ""  # instructions of the client
    images: tuple[Image, ...] = ()
    before: tuple[PastExchange, ...] = ()  # with the head in its place
    model: str = MODEL
    place: str = ""  # the conversation that the client names; empty: the one with this transcript, or a new one
    follows: str = ""  # id of the response that it goes on from
    stream: bool = False
    include_usage: bool = False
    events: bool = False  # the client understands what is not in OpenAI's form

    @property
    def first_said(self) -> str:
        """What is said where nothing was said before."""
        return put_head(self.head, self.said)


def put_head(head: str, text: str) -> str:
    return f"{HEAD_BEGINS}\n{head}\n{HEAD_ENDS}{GAP}{text}" if head else text


def join(texts: Iterable[str]) -> str:
    return GAP.join(text for text in texts if text)


def fold(messages: Sequence[ClientMessage]) -> Ask:
    """The list of a client as a question: instructions in front, exchanges, and what the user said last."""
    head = join(message.text for message in messages if message.role == "system")
    spoken = [message for message in messages if message.role != "system"]
    last = len(spoken)
    while last and spoken[last - 1].role == "user":
        last -= 1
    asked = spoken[last:]
    images = tuple(image for message in asked for image in message.images)
    return Ask(join(message.text for message in asked), head, images, _pair(spoken[:last], head))


def _pair(spoken: Sequence[ClientMessage], head: str) -> tuple[PastExchange, ...]:
    """Questions with their answers; neighbours of one side are one text."""
    pairs: list[tuple[list[str], list[str]]] = []
    for message in spoken:
        if not pairs or (message.role == "user" and pairs[-1][1]):
            pairs.append(([], []))
        pairs[-1][message.role != "user"].append(message.text)
    made = [PastExchange(join(asked) or NOTHING_ASKED, join(answered)) for asked, answered in pairs]
    if made:
        made[0] = replace(made[0], asked=put_head(head, made[0].asked))
    return tuple(made)
