"""The facts of a plugin's platform as the core knows them: from its registration, and from the adapter itself. Pure."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from gateway.platform_registry import PlatformEntry
from gateway.platforms.base import MAX_MESSAGE_LENGTH, BasePlatformAdapter
from gateway.platforms.face import PlatformSpec
from gateway.platforms.plugin_bridge.media_cache import MOST_BYTES
from hermes_base.call_forms import read_call_form

_HINT = "About {label}, where this conversation takes place: {hint}"
_NO_MARKS = " Marks such as MEDIA:/path do nothing here: a file is sent with the tool for that."
#: What sends which kind of file, the closest first.
FILE_CALLS = {
    "image": ("send_image_file", "send_document"),
    "audio": ("send_voice", "send_document"),
    "video": ("send_video", "send_document"),
    "file": ("send_document",),
}


def make_spec(entry: PlatformEntry, **more: Any) -> PlatformSpec:
    """What is known before there is an adapter. Nothing says what such a service bears, so it is spared: a call a
    second, and an edit in one and a half."""
    hint = " ".join(entry.platform_hint.split())
    said = _HINT.format(label=entry.label, hint=hint) if hint else ""
    return PlatformSpec(
        name=entry.name,
        label=entry.label,
        factory="",
        max_length=max(0, entry.max_message_length),
        has_receipts=True,
        marks_each=True,  # `on_processing_complete` follows each `on_processing_start`
        max_file_bytes=MOST_BYTES,
        calls_per_second=1.0,
        edit_seconds=1.5,
        account_calls_per_second=20.0,
        forgets=True,  # what became of a message that was not confirmed, only its adapter knows
        needs_mention=False,
        drops_name=True,
        hint=said + (_NO_MARKS if "MEDIA:" in said else ""),
        **more,
    )


def refine_spec(spec: PlatformSpec, entry: PlatformEntry, theirs: BasePlatformAdapter) -> PlatformSpec:
    """With what this adapter can do."""
    own = getattr(theirs, "MAX_MESSAGE_LENGTH", MAX_MESSAGE_LENGTH)
    limit = entry.max_message_length or (own if isinstance(own, int) else MAX_MESSAGE_LENGTH)
    return replace(
        spec,
        max_length=0 if theirs.splits_long_messages else max(0, limit),
        length_unit=_find_unit(theirs),
        can_edit=has_own(theirs, "edit_message"),
        has_typing=has_own(theirs, "send_typing") and bool(theirs.config.typing_indicator),
        takes_files=any(has_own(theirs, name) for names in FILE_CALLS.values() for name in names),
    )


def has_own(theirs: Any, name: str) -> bool:
    """Whether an adapter fills a call in that the base leaves empty, or does not have."""
    own = getattr(type(theirs), name, None)
    return callable(own) and own is not getattr(BasePlatformAdapter, name, None)


def find_file_call(theirs: Any, kind: str) -> str:
    """The call that sends a file of this kind; empty: there is none."""
    return next((name for name in FILE_CALLS.get(kind, FILE_CALLS["file"]) if has_own(theirs, name)), "")


def choose_arguments(call: Callable[..., Any], given: dict[str, Any]) -> dict[str, Any]:
    """Of these keywords those that a function takes."""
    form = read_call_form(call)
    return given if form is None else form.choose(given)


def _find_unit(theirs: BasePlatformAdapter) -> str:
    try:
        measured = theirs.message_len_fn("😀")
    except Exception:  # noqa: BLE001 - the boundary to a plugin: it counts in some way of its own
        return "bytes"
    return {1: "chars", 2: "utf16"}.get(measured, "bytes")
