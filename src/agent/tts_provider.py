"""The interface of a provider that speaks a text. Such providers can be registered; nothing of ours asks them yet."""

from abc import abstractmethod
from typing import Any

from agent.backend_provider import BackendProvider

DEFAULT_OUTPUT_FORMAT = "mp3"
VALID_OUTPUT_FORMATS = ("mp3", "wav", "ogg", "opus", "flac")


class TTSProvider(BackendProvider):
    @abstractmethod
    def synthesize(
        self,
        text: str,
        output_path: str,
        *,
        voice: str | None = None,
        model: str | None = None,
        speed: float | None = None,
        format: str = DEFAULT_OUTPUT_FORMAT,
        **extra: Any,
    ) -> str:
        """Write the spoken text to a file, and give its path back; raises when it cannot."""

    def list_voices(self) -> list[dict[str, Any]]:
        return []

    def default_voice(self) -> str | None:
        voices = self.list_voices()
        return voices[0].get("id") if voices else None

    def stream(self, text: str, **kwargs: Any) -> Any:
        raise NotImplementedError(f"{self.name} does not speak piece by piece")

    @property
    def voice_compatible(self) -> bool:
        return False


def resolve_output_format(value: Any) -> str:
    clean = value.strip().lower() if isinstance(value, str) else ""
    return clean if clean in VALID_OUTPUT_FORMATS else DEFAULT_OUTPUT_FORMAT
