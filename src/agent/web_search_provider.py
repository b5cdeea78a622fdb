"""The interface of a provider that searches the web or reads pages: `web.search_backend`, `web.extract_backend` and
`web.backend` name it."""

from abc import abstractmethod
from typing import Any

from agent.backend_provider import BackendProvider
from hermes_cli import config as cli_config


class WebSearchProvider(BackendProvider):
    @property
    def display_name(self) -> str:
        return self.name

    @abstractmethod
    def is_available(self) -> bool:
        """Whether all that it needs is there; no network is touched."""

    def supports_search(self) -> bool:
        return True

    def supports_extract(self) -> bool:
        return False

    def search(self, query: str, limit: int = 5) -> dict[str, Any]:
        """`{"success": True, "data": {"web": [{"title", "url", "description", "position"}]}}`, or `error`."""
        raise NotImplementedError(f"{self.name} does not search")

    def extract(self, urls: list[str], **kwargs: Any) -> Any:
        """For each address `url`, `title`, `content`, `raw_content`, or `error`; may be a coroutine."""
        raise NotImplementedError(f"{self.name} does not read pages")


def get_provider_env(name: str) -> str:
    """The value of a variable from the environment, else from `.env`, else empty."""
    return cli_config.env_value(name)
