"""The interface of a provider that makes images. Such providers can be registered; no tool of ours asks them yet."""

import importlib
from abc import abstractmethod
from pathlib import Path
from typing import Any

from agent.backend_provider import BackendProvider, save_base64, save_bytes
from hermes_base.turn.cancel import CancelToken
from hermes_cli import config as cli_config
from hermes_net.address_rules import read_rules
from hermes_net.call_values import HttpCall

MOST_BYTES = 25 << 20

DEFAULT_ASPECT_RATIO = "landscape"
VALID_ASPECT_RATIOS = ("landscape", "square", "portrait")


class ImageGenProvider(BackendProvider):
    @abstractmethod
    def generate(
        self,
        prompt: str,
        aspect_ratio: str = DEFAULT_ASPECT_RATIO,
        *,
        image_url: str | None = None,
        reference_image_urls: list[str] | None = None,
        **kwargs: Any,
    ) -> dict[str, Any]:
        """Make an image: `success_response` or `error_response`."""

    def capabilities(self) -> dict[str, Any]:
        return {"modalities": ["text"], "max_reference_images": 0}


def resolve_aspect_ratio(value: Any) -> str:
    """One that is known; the usual one for any other."""
    clean = value.strip().lower() if isinstance(value, str) else ""
    return clean if clean in VALID_ASPECT_RATIOS else DEFAULT_ASPECT_RATIO


def success_response(
    *,
    image: str,
    model: str,
    prompt: str,
    aspect_ratio: str,
    provider: str,
    modality: str = "text",
    extra: dict[str, Any] | None = None,
) -> dict[str, Any]:
    found = {"image": image, "model": model, "prompt": prompt, "aspect_ratio": aspect_ratio}
    return {**(extra or {}), "success": True, **found, "provider": provider, "modality": modality}


def error_response(
    *,
    error: str,
    error_type: str = "provider_error",
    provider: str = "",
    model: str = "",
    prompt: str = "",
    aspect_ratio: str = DEFAULT_ASPECT_RATIO,
) -> dict[str, Any]:
    asked = {"provider": provider, "model": model, "prompt": prompt, "aspect_ratio": aspect_ratio}
    return {"success": False, "image": None, "error": error, "error_type": error_type, **asked}


def save_b64_image(b64_data: str, *, prefix: str = "image", extension: str = "png") -> Path:
    return save_base64(b64_data, "images", prefix, extension)


def save_url_image(
    url: str, *, prefix: str = "image", timeout: float = 60.0, max_bytes: int = MOST_BYTES, extension: str = "png"
) -> Path:
    """Fetch an image, from where it may be fetched (G8), and keep it; raises when there is none."""
    call = HttpCall(url, redirects=5, seconds=timeout, most_bytes=max_bytes)
    rules = read_rules(cli_config.load_last_good().network.private)
    answer = _load_caller().call_and_wait(call, rules, CancelToken())
    if not 200 <= answer.status < 300:
        raise OSError(f"the image could not be fetched: status {answer.status}")
    if answer.cut or not answer.body:
        raise ValueError("the image is empty" if not answer.body else f"the image has more than {max_bytes} bytes")
    kind = answer.headers.get("content-type", "").partition(";")[0].strip().lower()
    known = {"image/jpeg": "jpg", "image/webp": "webp", "image/gif": "gif"}
    return save_bytes(answer.body, "images", prefix, known.get(kind, extension))


def _load_caller() -> Any:
    """Late: it brings an event loop, which nothing else here needs."""
    return importlib.import_module("hermes_net.waited_call")
