"""The interface of a memory provider: it keeps what was said and finds what fits a new message.

Other people's providers subclass this; four members are abstract, everything else has a default.
"""

from abc import ABC, abstractmethod
from typing import Any


class MemoryProvider(ABC):
    """One for each agent. Whatever it raises is logged, whatever hangs is passed over: a turn never waits for long."""

    @property
    @abstractmethod
    def name(self) -> str:
        """What it is called in messages to people."""

    @abstractmethod
    def is_available(self) -> bool:
        """Whether everything that it needs is there; it looks at files and variables, never at the network."""

    @abstractmethod
    def initialize(self, session_id: str, **kwargs: Any) -> None:
        """A session is about to be served; the keywords say where and for whom."""

    @abstractmethod
    def get_tool_schemas(self) -> list[dict[str, Any]]:
        """The tools that it gives the model: name, description, parameters."""

    # --- a turn

    def system_prompt_block(self) -> str:
        """What stands in the system prompt; asked for once, when the prompt of a conversation is built."""
        return ""

    def on_turn_start(self, turn_number: int, message: str, **kwargs: Any) -> None:  # noqa: B027
        """A turn begins; the first one of a conversation has the number 1."""

    def prefetch(self, query: str, *, session_id: str = "") -> str:
        """What is remembered that fits the message; it goes along with it."""
        del query, session_id
        return ""

    def queue_prefetch(self, query: str, *, session_id: str = "") -> None:  # noqa: B027
        """After a turn, in the background: look up what the next message may need."""

    def sync_turn(  # noqa: B027
        self,
        user_content: str,
        assistant_content: str,
        *,
        session_id: str = "",
        messages: list[dict[str, Any]] | None = None,
    ) -> None:
        """After a turn that was answered, in the background: keep it."""

    def handle_tool_call(self, tool_name: str, args: dict[str, Any], **kwargs: Any) -> str:
        """Run one of its tools; the result is text for the model."""
        del args, kwargs
        raise NotImplementedError(f"{self.name} does not run the tool {tool_name}")

    # --- a session

    def on_session_end(self, messages: list[dict[str, Any]]) -> None:  # noqa: B027
        """The session is over; never called per turn."""

    def on_session_switch(  # noqa: B027
        self,
        new_session_id: str,
        *,
        parent_session_id: str = "",
        reset: bool = False,
        rewound: bool = False,
        **kwargs: Any,
    ) -> None:
        """The conversation goes on under another id, or (`rewound`) its last turns were taken back."""

    def on_pre_compress(self, messages: list[dict[str, Any]]) -> str:
        """Before messages are summarised: what the summary should hold of them."""
        del messages
        return ""

    def on_delegation(self, task: str, result: str, *, child_session_id: str = "", **kwargs: Any) -> None:  # noqa: B027
        """A sub-agent has done something."""

    def on_memory_write(  # noqa: B027
        self, action: str, target: str, content: str, metadata: dict[str, Any] | None = None
    ) -> None:
        """The built-in memory was changed: add, replace or remove, in `memory` or `user`."""

    def shutdown(self) -> None:  # noqa: B027
        """No more calls come."""

    # --- set-up

    def get_config_schema(self) -> list[dict[str, Any]]:
        """What `hermes memory setup` asks for: key, description, secret, required, default, choices, url, env_var."""
        return []

    def save_config(self, values: dict[str, Any], hermes_home: str) -> None:  # noqa: B027
        """Keep what was answered and is no secret with a variable of its own."""

    def backup_paths(self) -> list[str]:
        """What a back-up has to hold besides the folder that is called like the provider; `hermes backup` asks. Places
        outside of the home are told to the owner."""
        return []
