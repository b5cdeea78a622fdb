"""The one place where what somebody said aloud becomes text. Nobody does it unless a plugin offers to."""

import logging
from collections.abc import Callable
from pathlib import Path

from hermes_cli.plugins import find_offers

log = logging.getLogger(__name__)

Transcribe = Callable[[Path], str]
OFFER = "transcription_provider"


def find_transcriber() -> Transcribe | None:
    """What the last plugin offered with `ctx.register_transcription_provider`: a function that takes a path and gives
    back text, or something with such a `transcribe`."""
    for offer in reversed(find_offers(OFFER)):
        found = getattr(offer, "transcribe", offer)
        if callable(found):
            return lambda path, transcribe=found: str(transcribe(path) or "").strip()  # type: ignore[misc]
        log.warning("a plugin offers a transcription that cannot be called: %r", offer)
    return None
