"""The interface of a context engine: it watches how full the window is and makes a conversation shorter.

Other people's engines subclass this without calling `super().__init__()` and assign to its attributes freely.
"""

import json
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from typing import Any

from hermes_base.call_forms import read_call_form

MEMORY_CONTEXT_MAX_CHARS = 6000
_HEAD, _TAIL = 4000, 1500


class ContextEngine(ABC):
    """Four abstract members; everything else has a default."""

    last_prompt_tokens: int = 0
    last_completion_tokens: int = 0
    last_total_tokens: int = 0
    threshold_tokens: int = 0
    context_length: int = 0
    compression_count: int = 0
    threshold_percent: float = 0.75
    protect_first_n: int = 3
    protect_last_n: int = 6

    @property
    @abstractmethod
    def name(self) -> str:
        """What `context.engine` calls it."""

    @abstractmethod
    def update_from_response(self, usage: dict[str, Any]) -> None:
        """Take the real token counts of a model call."""

    @abstractmethod
    def should_compress(self, prompt_tokens: int | None = None) -> bool:
        """Whether the conversation has to become shorter; None: by the last real count."""

    @abstractmethod
    def compress(
        self,
        messages: list[dict[str, Any]],
        current_tokens: int | None = None,
        focus_topic: str | None = None,
        force: bool = False,
        memory_context: str = "",
    ) -> list[dict[str, Any]]:
        """A shorter, valid list of messages; the same list when nothing can be done."""

    def should_compress_preflight(self, messages: list[dict[str, Any]]) -> bool:
        del messages
        return False

    def should_defer_preflight_to_real_usage(self, rough_tokens: int) -> bool:
        del rough_tokens
        return False

    def has_content_to_compress(self, messages: list[dict[str, Any]]) -> bool:
        del messages
        return True

    def on_session_start(self, session_id: str, **kwargs: Any) -> None:  # noqa: B027
        """A session begins, or an existing one is bound again."""

    def on_session_end(self, session_id: str, messages: list[dict[str, Any]]) -> None:  # noqa: B027
        """A session is really over; never called per turn."""

    def on_session_reset(self) -> None:
        self.last_prompt_tokens = 0
        self.last_completion_tokens = 0
        self.last_total_tokens = 0
        self.compression_count = 0

    def get_tool_schemas(self) -> list[dict[str, Any]]:
        return []

    def handle_tool_call(self, name: str, args: dict[str, Any], **kwargs: Any) -> str:
        del args, kwargs
        return json.dumps({"error": f"Unknown context engine tool: {name}"})

    def get_status(self) -> dict[str, Any]:
        used = max(0, self.last_prompt_tokens)
        share = min(100.0, 100.0 * used / self.context_length) if self.context_length else 0
        return {
            "last_prompt_tokens": used,
            "threshold_tokens": self.threshold_tokens,
            "context_length": self.context_length,
            "usage_percent": share,
            "compression_count": self.compression_count,
        }

    def update_model(
        self,
        model: str,
        context_length: int,
        base_url: str = "",
        api_key: str = "",
        provider: str = "",
        api_mode: str = "",
        **facts: Any,
    ) -> None:
        """Another model answers from now on. What `facts` hold beside it may grow (now `max_tokens`): hand them on."""
        del model, base_url, api_key, provider, api_mode, facts
        self.context_length = context_length
        self.threshold_tokens = int(context_length * self.threshold_percent)


def sanitize_memory_context(text: str) -> str:
    """Memory text fit for a compaction: cut in the middle where it is too long."""
    if len(text) <= MEMORY_CONTEXT_MAX_CHARS:
        return text
    return f"{text[:_HEAD]}\n[… {len(text) - _HEAD - _TAIL} characters left out …]\n{text[-_TAIL:]}"


def accepted_arguments(call: Callable[..., Any], offered: Mapping[str, Any]) -> dict[str, Any]:
    """Those of the offered keyword arguments that an engine's method takes; older engines take fewer."""
    form = read_call_form(call)
    if form is None:
        return {name: value for name, value in offered.items() if name == "current_tokens"}
    return form.choose(offered)
