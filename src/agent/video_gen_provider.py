"""The interface of a provider that makes videos. Such providers can be registered; no tool of ours asks them yet."""

from abc import abstractmethod
from pathlib import Path
from typing import Any

from agent.backend_provider import BackendProvider, save_base64, save_bytes

DEFAULT_ASPECT_RATIO = "16:9"


class VideoGenProvider(BackendProvider):
    @abstractmethod
    def generate(
        self,
        prompt: str,
        *,
        model: str | None = None,
        image_url: str | None = None,
        reference_image_urls: list[str] | None = None,
        duration: int | None = None,
        aspect_ratio: str = DEFAULT_ASPECT_RATIO,
        resolution: str = "720p",
        negative_prompt: str | None = None,
        audio: bool | None = None,
        seed: int | None = None,
        **kwargs: Any,
    ) -> dict[str, Any]:
        """Make a video."""

    def capabilities(self) -> dict[str, Any]:
        return {"modalities": ["text"]}


def success_response(
    *,
    video: str,
    model: str,
    prompt: str,
    modality: str = "text",
    aspect_ratio: str = "",
    duration: float = 0,
    provider: str,
    extra: dict[str, Any] | None = None,
) -> dict[str, Any]:
    found = {"video": video, "model": model, "prompt": prompt, "modality": modality, "aspect_ratio": aspect_ratio}
    return {**(extra or {}), "success": True, **found, "duration": duration, "provider": provider}


def error_response(
    *,
    error: str,
    error_type: str = "provider_error",
    provider: str = "",
    model: str = "",
    prompt: str = "",
    aspect_ratio: str = "",
) -> dict[str, Any]:
    asked = {"provider": provider, "model": model, "prompt": prompt, "aspect_ratio": aspect_ratio}
    return {"success": False, "video": None, "error": error, "error_type": error_type, **asked}


def save_b64_video(b64_data: str, *, prefix: str = "video", extension: str = "mp4") -> Path:
    return save_base64(b64_data, "videos", prefix, extension)


def save_bytes_video(raw: bytes, *, prefix: str = "video", extension: str = "mp4") -> Path:
    return save_bytes(raw, "videos", prefix, extension)
