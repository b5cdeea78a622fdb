"""The interface of a provider that writes down what is said in a recording."""

from abc import abstractmethod
from typing import Any

from agent.backend_provider import BackendProvider


class TranscriptionProvider(BackendProvider):
    @abstractmethod
    def transcribe(
        self, file_path: str, *, model: str | None = None, language: str | None = None, **extra: Any
    ) -> dict[str, Any]:
        """`success`, `transcript`, `provider`, and `error` when there is none."""
