"""The interface of a provider that lends browsers, one for each task; `browser.cloud_provider` names it."""

from abc import abstractmethod
from typing import Any

from agent.backend_provider import BackendProvider


class BrowserProvider(BackendProvider):
    @property
    def display_name(self) -> str:
        return self.name

    @abstractmethod
    def is_available(self) -> bool:
        """Whether all that it needs is there; no network is touched."""

    @abstractmethod
    def create_session(self, task_id: str) -> dict[str, Any]:
        """`session_name`, `bb_session_id`, `cdp_url`, `features`."""

    @abstractmethod
    def close_session(self, session_id: str) -> bool:
        """Give a browser back."""

    @abstractmethod
    def emergency_cleanup(self, session_id: str) -> None:
        """The process ends: give it back if it can be done at once."""

    def is_configured(self) -> bool:
        return self.is_available()

    def provider_name(self) -> str:
        return self.display_name
