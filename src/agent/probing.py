"""One small real call to a model, and a sentence on what came of it (H5). Nothing is kept, and no key is ever told."""

import threading
import time
from dataclasses import dataclass, replace
from typing import NamedTuple

from agent.auxiliary_client import AuxiliaryCall, complete_once, connect_runtime
from agent.providers.local_servers import find_better_address
from agent.providers.runtime import Runtime
from hermes_base.errors import HermesError, Interrupted, ModelFailure
from hermes_base.query_values import Probed
from hermes_base.text.addresses import describe_address
from hermes_base.text.redact import Redactor
from hermes_base.turn.cancel import CancelToken
from hermes_base.turn.journal import UsageRow
from hermes_cli import config as cli_config

SECONDS = 30.0
#: Enough for two letters after a short thought; some providers take no smaller limit than 16.
MOST_TOKENS = 64
QUESTION = "Say OK."
KIND = "probe"
SHORTEST_KEY = 4  # what is shorter is no key, and a part of many words


@dataclass(frozen=True, slots=True)
class ProbeResult:
    """What came of it, and what it cost where it cost anything."""

    probed: Probed
    usage: tuple[UsageRow, ...] = ()
    passing: bool = False  # of a failure: it says nothing against what was chosen, and may be over soon


class Sentence(NamedTuple):
    """What is wrong and what to do; `{who}`, `{model}` and `{address}` are filled in."""

    what: str
    fix: str


WRONG_KEY = Sentence(
    "{who} did not accept the key.", "Check that it was copied whole, that it belongs to {who} and was not revoked."
)
NO_CREDIT = Sentence("{who} has no credit left for this key.", "Add credit there, or choose another provider.")
NOT_ALLOWED = Sentence("{who} does not let this key use {model}.", "Choose another model, or check the key's rights.")
NO_MODEL = Sentence("{who} has no model '{model}' at {address}.", "Check the model's name and the address.")
LIMITED = Sentence(
    "{who} limits the rate of requests just now, so nothing could be tried.", "Wait a minute and try again."
)
UNREACHABLE = Sentence(
    "{who} cannot be reached at {address}.", "Check the address, the network, and that the server runs."
)
SLOW = Sentence("{who} did not answer in time.", "Try again, or choose a faster model.")
BROKEN = Sentence("{who} has a problem of its own.", "Try again later, or choose another provider.")
CUT = Sentence("The answer of {who} broke off.", "Try again; if it stays so, choose another provider or model.")

_PASSING = (LIMITED, UNREACHABLE, SLOW, BROKEN, CUT)
_BY_STATUS = {401: WRONG_KEY, 402: NO_CREDIT, 403: NOT_ALLOWED, 404: NO_MODEL, 408: SLOW, 429: LIMITED}


def probe(runtime: Runtime, seconds: float = SECONDS) -> ProbeResult:
    """Ask the model for two letters; blocks for at most about `seconds`."""
    begun = time.monotonic()
    spent: list[UsageRow] = []
    cancel = CancelToken()
    clock = threading.Timer(seconds, cancel.cancel)
    clock.daemon = True
    clock.start()
    try:
        connected = connect_runtime(runtime, cancel)
        call = AuxiliaryCall([{"role": "user", "content": QUESTION}], KIND, MOST_TOKENS, timeout=seconds)
        complete_once(connected, call, spent.append, cancel)
    except Interrupted:
        return replace(_failed(SLOW, runtime, begun), usage=tuple(spent))
    except ModelFailure as failure:
        return replace(_failed(choose_sentence(failure), runtime, begun, failure), usage=tuple(spent))
    except HermesError as problem:  # there is nothing to call: no SDK, no built-in model
        return ProbeResult(Probed(False, str(problem), runtime.model, time.monotonic() - begun))
    finally:
        clock.cancel()
    took = time.monotonic() - begun
    text = f"{runtime.model} ({runtime.label}) answered in {took:.1f} s."
    return ProbeResult(Probed(True, text, runtime.model, took), tuple(spent))


def choose_sentence(failure: ModelFailure) -> Sentence | None:
    """The sentence of a failure; None: the failure's own words say it best."""
    if failure.status is None and not failure.transport:
        return None
    if failure.began:
        return CUT
    if failure.status is None:
        return SLOW if _is_read_timeout(failure) else UNREACHABLE
    if failure.status >= 500:
        return BROKEN
    return _BY_STATUS.get(failure.status)


def _is_read_timeout(failure: ModelFailure) -> bool:
    """The address took the request and stayed silent; otherwise it was not reached at all."""
    error: BaseException | None = failure
    while error is not None:
        if type(error).__name__ == "ReadTimeout":
            return True
        error = error.__cause__
    return False


def _failed(
    sentence: Sentence | None, runtime: Runtime, begun: float, failure: ModelFailure | None = None
) -> ProbeResult:
    who = "The server" if runtime.provider == "custom" else runtime.facts.label
    facts = {"who": who, "model": runtime.model, "address": describe_address(runtime.base_url)}
    text = " ".join(part.format_map(facts) for part in sentence) if sentence else str(failure)
    better = find_better_address(runtime.base_url) if sentence in (NO_MODEL, UNREACHABLE) else ""
    if better:
        text = f"{who} does not answer at {facts['address']}, but at {describe_address(better)}: use that."
    # A provider may repeat the key in its answer; the one that was tried is not configured yet.
    key = runtime.api_key
    text = Redactor({"the key": key})(cli_config.redactor()(text))
    text = text.replace(key, "***") if len(key) >= SHORTEST_KEY else text
    probed = Probed(False, text, runtime.model, time.monotonic() - begun)
    return ProbeResult(probed, passing=sentence in _PASSING and not better)
