"""`resolve_runtime_provider`: which model answers and how it is reached, for plugins that call it themselves."""

from typing import Any

from agent.auxiliary_client import connect_runtime, find_runtime
from hermes_base.errors import HermesError
from hermes_cli import config as cli_config


def resolve_runtime_provider(*, requested: str | None = None, model: str | None = None) -> dict[str, Any]:
    """Provider, model, address, key and format of the provider asked for, else of what answers in a chat; RuntimeError
    when there is none."""
    wanted = requested if requested and requested != "auto" else ""
    try:
        found = connect_runtime(find_runtime(cli_config.load_last_good(), model=model or "", provider=wanted))
    except HermesError as problem:
        raise RuntimeError(str(problem)) from problem
    return {
        "provider": found.provider,
        "requested_provider": requested or found.provider,
        "model": found.model,
        "api_mode": found.api_mode,
        "base_url": found.base_url,
        "api_key": found.api_key,
        "source": found.source,
    }
