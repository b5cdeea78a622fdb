"""Ask model servers on this machine which models they have: all addresses at once, with little patience."""

import http.client
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from urllib.parse import urlsplit

from agent.wire_limits import FORM_ERRORS, read_json

SECONDS = 0.4
MOST_BYTES = 1_000_000  # of a list of models


def probe_model_servers(addresses: Sequence[str]) -> Mapping[str, Sequence[str]]:
    """The models of each address that answers like a model server."""
    if not addresses:
        return {}
    with ThreadPoolExecutor(len(addresses), thread_name_prefix="probe") as threads:
        found = zip(addresses, threads.map(list_models, addresses), strict=True)
    return {address: models for address, models in found if models}


def find_better_address(address: str) -> str:
    """Where a model server answers, when it does not at this address but at one that is nearly the same."""
    longer = address.rstrip("/") + "/v1"
    return longer if longer in probe_model_servers([longer]) else ""


def list_models(base_url: str) -> Sequence[str]:
    """Names of the models at an OpenAI-format address; empty when nobody answers or the answer is something else."""
    connection: http.client.HTTPConnection | None = None
    try:
        parts = urlsplit(base_url)
        make = http.client.HTTPSConnection if parts.scheme == "https" else http.client.HTTPConnection
        connection = make(parts.hostname or "", parts.port, timeout=SECONDS)
        connection.request("GET", parts.path.rstrip("/") + "/models")
        response = connection.getresponse()
        body = read_json(response.read(MOST_BYTES).decode()) if response.status == 200 else {}
        return [str(model["id"]) for model in body["data"]] if "data" in body else []
    except (OSError, http.client.HTTPException, *FORM_ERRORS):
        return []  # nothing that speaks this format is there
    finally:
        if connection is not None:
            connection.close()
