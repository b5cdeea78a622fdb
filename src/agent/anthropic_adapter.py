"""Clients of the official Anthropic SDK, built when an agent speaks the Anthropic Messages format."""

import importlib
from typing import Any

from hermes_base.errors import ConfigProblem


def build_anthropic_client(api_key: str, base_url: str = "", *, timeout: float | None = None) -> Any:
    """A client for that key and address; retries are the turn's business, not the SDK's."""
    sdk = _load_anthropic_sdk()
    options: dict[str, Any] = {"api_key": api_key or "none", "max_retries": 0}
    if base_url:
        options["base_url"] = base_url.removesuffix("/v1")
    if timeout is not None:
        options["timeout"] = timeout
    return sdk.Anthropic(**options)


def is_oauth_token(api_key: str) -> bool:
    """Tokens of a subscription have another form than API keys and travel in another header."""
    return api_key.startswith("sk-ant-oat")


def _load_anthropic_sdk() -> Any:
    """Late: the import costs half a second and 40 MB, and most agents never need it."""
    try:
        return importlib.import_module("anthropic")
    except ImportError as problem:
        raise ConfigProblem(
            "The Anthropic SDK is not installed.", fix="Install it with: pip install 'hermes-agent[anthropic]'"
        ) from problem
