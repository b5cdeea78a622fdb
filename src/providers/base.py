"""What a plugin says of a provider of models: where it is, how its key is called, and what its requests need.

The names are fixed by the plugins that are written against them.
"""

import http.client
import json
import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit

from hermes_constants import VERSION

log = logging.getLogger(__name__)

#: `fixed_temperature` of a provider that refuses the field: nothing is sent, whoever asks for one.
OMIT_TEMPERATURE: Any = object()
_MOST_BYTES = 4_000_000  # of a list of models


def _profile_user_agent() -> str:
    return f"hermes-cli/{VERSION}"


@dataclass
class ProviderProfile:
    """A provider as data; one with ways of its own is a subclass."""

    name: str
    api_mode: str = "chat_completions"
    aliases: Sequence[str] = ()
    display_name: str = ""
    description: str = ""
    signup_url: str = ""
    env_vars: Sequence[str] = ()  # of its key, in this order; those that end in _URL hold its address
    base_url: str = ""
    models_url: str = ""
    auth_type: str = "api_key"
    supports_health_check: bool = True
    supports_vision: bool = False
    supports_vision_tool_messages: bool = True
    fallback_models: Sequence[str] = ()
    hostname: str = ""
    default_headers: Mapping[str, str] = field(default_factory=dict)
    fixed_temperature: Any = None
    default_max_tokens: int | None = None
    default_aux_model: str = ""

    def get_hostname(self) -> str:
        return self.hostname or urlsplit(self.base_url).hostname or ""

    def prepare_messages(self, messages: list[dict[str, Any]]) -> list[dict[str, Any]]:
        """The messages of a request as this provider wants them."""
        return messages

    def build_extra_body(self, *, session_id: str | None = None, **context: Any) -> dict[str, Any]:
        """Fields that every request carries."""
        del session_id, context
        return {}

    def build_api_kwargs_extras(
        self, *, reasoning_config: Mapping[str, Any] | None = None, **context: Any
    ) -> tuple[dict[str, Any], dict[str, Any]]:
        """Fields of the body, and arguments of the call, that depend on what was asked for."""
        del reasoning_config, context
        return {}, {}

    def default_vision_model(self) -> str | None:
        return None

    def get_max_tokens(self, model: str | None) -> int | None:
        """The output limit where the owner has set none."""
        del model
        return self.default_max_tokens

    def fetch_models(
        self, *, api_key: str | None = None, base_url: str | None = None, timeout: float = 8.0
    ) -> list[str] | None:
        """The ids that the provider lists; None when it cannot be asked or does not tell."""
        base = base_url or self.base_url
        address = self.models_url or (f"{base.rstrip('/')}/models" if base else "")
        headers = {"Accept": "application/json", "User-Agent": _profile_user_agent(), **self.default_headers}
        if api_key:
            headers["Authorization"] = f"Bearer {api_key}"
        try:
            return _read_ids(_get(address, headers, timeout)) if address else None
        except (OSError, http.client.HTTPException, ValueError, RecursionError) as problem:
            log.debug("%s does not list its models: %s", self.name, problem)
            return None


def _get(address: str, headers: Mapping[str, str], timeout: float) -> bytes:
    """The body of an answer. A redirect is not followed: the key is for this address."""
    parts = urlsplit(address)
    make = http.client.HTTPSConnection if parts.scheme == "https" else http.client.HTTPConnection
    connection = make(parts.hostname or "", parts.port, timeout=timeout)
    try:
        connection.request("GET", parts._replace(scheme="", netloc="", fragment="").geturl() or "/", headers=headers)
        answer = connection.getresponse()
        body = answer.read(_MOST_BYTES)
    finally:
        connection.close()
    if answer.status != http.client.OK:
        raise ValueError(f"HTTP {answer.status}")
    return body


def _read_ids(body: bytes) -> list[str]:
    told = json.loads(body)
    rows = told.get("data") if isinstance(told, Mapping) else told
    if not isinstance(rows, list):
        raise ValueError("the answer holds no list")
    return [row["id"] for row in rows if isinstance(row, Mapping) and isinstance(row.get("id"), str)]
