"""The one place where what somebody said aloud becomes text. Nobody does it unless a plugin offers to."""

import logging
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from hermes_cli.plugins import find_offers

log = logging.getLogger(__name__)

Transcribe = Callable[[Path], str]
OFFER = "transcription_provider"


def find_transcriber() -> Transcribe | None:
    """What the last plugin offered with `ctx.register_transcription_provider`: a function that takes a path and gives
    back text, or something with such a `transcribe`, which may also answer as a `TranscriptionProvider` does."""
    for offer in reversed(find_offers(OFFER)):
        found = getattr(offer, "transcribe", offer)
        if callable(found):
            return lambda path, transcribe=found: read_transcript(transcribe(path))  # type: ignore[misc]
        log.warning("a plugin offers a transcription that cannot be called: %r", offer)
    return None


def read_transcript(answer: Any) -> str:
    """The text of an answer: the answer itself, or its `transcript`; a failure raises what it says."""
    if isinstance(answer, Mapping):
        if answer.get("success") is False:
            raise ValueError(str(answer.get("error") or "the provider wrote nothing down"))
        answer = answer.get("transcript")
    return str(answer or "").strip()
