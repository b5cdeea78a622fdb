"""What the turn needs of a wire format, and which format an API mode speaks."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache, partial
from typing import Any, Protocol

from agent.formats import anthropic_messages, chat_completions, responses
from agent.formats.reply import Reply, Tell
from agent.providers.table import ANTHROPIC_MESSAGES, CHAT_COMPLETIONS, CODEX_RESPONSES, Provider
from hermes_base.errors import ConfigProblem


@dataclass(frozen=True, slots=True)
class CallSettings:
    """What may change from call to call without moving the prefix."""

    model: str
    max_tokens: int | None = None
    reasoning: Mapping[str, Any] | None = None  # {"enabled": bool, "effort": str}
    with_tools: bool = True  # False: the model must answer in words now
    cache_ttl: str = ""  # how long a provider that wants marks keeps the prefix: 5m, 1h; empty: no marks

    @property
    def effort(self) -> str:
        """The level of reasoning that was asked for; empty: the model's own way; none: as little as can be."""
        asked = self.reasoning or {}
        return str(asked.get("effort") or "") if asked.get("enabled", True) else "none"


class AnswerReader(Protocol):
    """Collects one streamed answer."""

    @property
    def text(self) -> str:
        """What has been read of the answer so far."""

    @property
    def whole(self) -> bool:
        """The end was seen; only then is `reply` the answer."""

    def feed(self, chunk: Mapping[str, Any]) -> None: ...

    def finish(self) -> None:
        """The stream said that it is over ([DONE], where the format has it)."""

    def reply(self) -> Reply: ...


class WireFormat(Protocol):
    """The functions of a format's module: neutral values in, bytes out; chunks in, a Reply out. No network.

    A fragment is encoded once and kept. `join_request` puts fragments together so that the body of the next request
    starts with the bytes of this one: model, tools, system, messages; what may change comes last. Marks for the
    provider's cache are put in by `join_request` and are no part of the fragments.
    """

    @property
    def PATH(self) -> str: ...

    def encode_message(self, message: Mapping[str, Any], dialect: str) -> bytes: ...

    def encode_system(self, text: str) -> bytes: ...

    def encode_tools(self, tools: Sequence[Mapping[str, Any]]) -> bytes: ...

    def join_request(
        self, model: str, tools: bytes, system: bytes, messages: Sequence[bytes], tail: Mapping[str, Any]
    ) -> bytes: ...

    def make_tail(self, provider: Provider, settings: CallSettings) -> dict[str, Any]: ...

    def read_answer(
        self, dialect: str, on_text: Tell | None = None, on_reasoning: Tell | None = None
    ) -> AnswerReader: ...

    def find_error(self, chunk: Mapping[str, Any]) -> Mapping[str, Any] | None:
        """The error that a chunk tells of in mid-stream: its fields code (a status, where known), type, message."""


_FORMATS: Mapping[str, WireFormat] = {
    CHAT_COMPLETIONS: chat_completions,
    ANTHROPIC_MESSAGES: anthropic_messages,
    CODEX_RESPONSES: responses,
}


@dataclass(frozen=True)
class Dialect:
    """A wire format as one kind of provider wants it. A model that cannot call tools gets a prompt of its own."""

    api_mode: str
    family: str = ""  # providers with fields of their own in this format
    plain: bool = False

    @cached_property
    def name(self) -> str:
        return "/".join(part for part in (self.api_mode, self.family, "plain" if self.plain else "") if part)

    @cached_property
    def neutral(self) -> str:
        """The name under which the parts are kept before they are encoded."""
        return "neutral/plain" if self.plain else "neutral"

    @cached_property
    def format(self) -> WireFormat:
        found = _FORMATS.get(self.api_mode)
        if found is None:
            raise ConfigProblem(
                f"The API mode '{self.api_mode}' cannot be spoken.",
                fix=f"Set it to one of: {', '.join(_FORMATS)} (hermes config set model.api_mode …).",
            )
        return found

    @cached_property
    def encode(self) -> Callable[[Mapping[str, Any]], bytes]:
        """Encodes one message after the other."""
        return partial(self.format.encode_message, dialect=self.name)


def dialect_of(api_mode: str, provider: Provider) -> Dialect:
    """Signed thinking and sealed reasoning are for the provider that wrote them, so each has a dialect of its own."""
    family = provider.dialect or (provider.name if api_mode != CHAT_COMPLETIONS else "")
    return _make_dialect(api_mode, family, not provider.calls_tools)


_make_dialect = lru_cache(Dialect)
