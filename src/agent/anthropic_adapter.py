"""Clients for the Anthropic Messages format."""

from collections.abc import Mapping
from typing import Any

from agent.http import clients


def build_anthropic_client(api_key: str, base_url: str = "", default_headers: Mapping[str, str] | None = None) -> Any:
    """A client for that key and address."""
    return clients.build_anthropic_client(api_key=api_key, base_url=base_url, default_headers=default_headers)
