"""Takes configured secrets out of a message on its way into the transcript: what is sent is what is stored (G6)."""

import json
import logging
from collections.abc import Callable, Mapping
from typing import Any

from agent.formats.repair import fit_name
from agent.formats.reply import OWN_DATA

log = logging.getLogger(__name__)

Redact = Callable[[str], str]
#: Kinds of blocks that their provider signed or sealed: it takes them back to the letter, or not at all.
_SEALED_KINDS = ("thinking", "redacted_thinking", "reasoning")


def clean_message(message: Mapping[str, Any], redact: Redact) -> dict[str, Any]:
    """The message without secrets, whichever field they stand in: text, reasoning, names and arguments of calls."""
    clean = {name: _clean_value(value, redact) for name, value in message.items() if name not in ("content", OWN_DATA)}
    content = message.get("content")
    if isinstance(content, list):  # images are megabytes without a word
        clean["content"] = [part if _kind_of(part) == "image_url" else _clean_value(part, redact) for part in content]
    else:
        clean["content"] = _clean_value(content, redact)
    for call in clean.get("tool_calls", ()):
        call["function"]["name"] = fit_name(call["function"]["name"])  # the mark of a secret is no name
    if OWN_DATA in message:
        clean[OWN_DATA] = _clean_own(message[OWN_DATA], redact)
    return clean


def _clean_value(value: Any, redact: Redact) -> Any:
    if isinstance(value, str):
        return redact(value)
    if isinstance(value, list):
        return [_clean_value(part, redact) for part in value]
    if isinstance(value, Mapping):
        return {redact(name): _clean_value(inner, redact) for name, inner in value.items()}
    return value


def _clean_own(own: Mapping[str, Any], redact: Redact) -> dict[str, Any]:
    """What a provider wants to see again. A signed block that holds a secret is left out: changed it would be refused
    for ever, and kept it would be stored."""
    text = json.dumps(own, ensure_ascii=False)
    if redact(text) is text:  # nearly always
        return dict(own)
    log.warning("what the provider wants to see again held a secret; signed blocks with it are not kept and not sent")
    signatures = own.get("calls", {})
    clean = {name: _clean_blocks(value, redact) for name, value in own.items() if name != "calls"}
    kept = {call: signed for call, signed in signatures.items() if _clean_value(signed, redact) == signed}
    return clean | ({"calls": kept} if kept else {})


def _clean_blocks(value: Any, redact: Redact) -> Any:
    if isinstance(value, Mapping):  # fields by name
        return {redact(name): _clean_blocks(inner, redact) for name, inner in value.items()}
    if not isinstance(value, list):
        return _clean_value(value, redact)
    clean = [(block, _clean_value(block, redact)) for block in value]
    return [new for block, new in clean if new == block or _kind_of(block).partition(".")[0] not in _SEALED_KINDS]


def _kind_of(block: Any) -> str:
    return str(block.get("type")) if isinstance(block, Mapping) else ""
