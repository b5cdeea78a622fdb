"""What Discord takes as a message: every field is judged before anything is done."""

import json
from collections.abc import Mapping
from typing import Any

from hermes_lab.chats.discord.discord_values import (
    BUTTONS,
    FIELDS,
    LENGTH,
    MOST_CONTENT,
    MOST_CUSTOM_ID,
    MOST_EMBED_SIGNS,
    MOST_EMBEDS,
    MOST_FILE,
    MOST_FILES,
    MOST_LABEL,
    MOST_MENTION_IDS,
    MOST_NONCE,
    MOST_REQUEST,
    MOST_ROW_BUTTONS,
    MOST_ROWS,
    PING,
    Complain,
    DiscordError,
    JsonObject,
    bad_form,
    too_long,
)
from hermes_lab.chats.forms import Form, SentFile

_NAMES = (
    "content nonce tts embeds allowed_mentions message_reference components sticker_ids attachments flags "
    "enforce_nonce poll"
)
_KNOWN = frozenset(_NAMES.split())
_STYLES = (1, 2, 3, 4, 5)


def read_payload(form: Form, size: int) -> tuple[JsonObject, list[SentFile]]:
    """The body of a call that may bring files along: the fields, and the files by their numbers."""
    if size > MOST_REQUEST:
        raise DiscordError(413, 40005, "Request entity too large", LENGTH)
    if not form.files and "payload_json" not in form.values:
        return form.values, []
    try:
        payload = json.loads(form.values.get("payload_json", "{}"))
    except ValueError as error:
        raise DiscordError(400, 50109, "The request body contains invalid JSON.", FIELDS) from error
    if not isinstance(payload, dict):
        raise bad_form("payload_json", "DICT_TYPE_CONVERT", "Only dictionaries may be used in a DictType")
    files = [form.files[name] for name in sorted(form.files)]
    _judge_files(payload, form, files)
    return payload, files


def _judge_files(payload: Mapping[str, Any], form: Form, files: list[SentFile]) -> None:
    if len(files) > MOST_FILES:
        raise bad_form("files", "BASE_TYPE_MAX_LENGTH", f"Must be {MOST_FILES} or fewer in length.", LENGTH)
    if any(len(file.data) > MOST_FILE for file in files):
        raise DiscordError(413, 40005, "Request entity too large", LENGTH)
    numbers = {str(row.get("id")) for row in payload.get("attachments") or [] if isinstance(row, Mapping)}
    for name in form.files:
        number = name.removeprefix("files[").removesuffix("]")
        if name != f"files[{number}]" or (numbers and number not in numbers):
            raise bad_form("attachments", "ATTACHMENT_NOT_FOUND", f"There is no attachment for {name}.")


def judge_message(payload: Mapping[str, Any], has_files: bool, complain: Complain, is_edit: bool = False) -> None:
    for name in sorted(set(payload) - _KNOWN):
        complain(FIELDS, f"A message has no field {name}.")
    content = payload.get("content")
    if content is not None and not isinstance(content, str):
        raise bad_form("content", "BASE_TYPE_BAD_STRING", "Must be a string.")
    if content and len(content) > MOST_CONTENT:
        raise too_long("content", MOST_CONTENT)
    embeds = payload.get("embeds") or []
    _judge_embeds(embeds)
    judge_components(payload.get("components") or [])
    _judge_nonce(payload)
    _judge_mentions(payload, complain)
    filled = (content or "").strip() or embeds or payload.get("sticker_ids") or payload.get("components") or has_files
    if not filled and not (is_edit and content is None):
        raise DiscordError(400, 50006, "Cannot send an empty message", LENGTH)


def _judge_embeds(embeds: Any) -> None:
    if not isinstance(embeds, list) or len(embeds) > MOST_EMBEDS:
        raise too_long("embeds", MOST_EMBEDS)
    texts = [str(embed.get(name) or "") for embed in embeds for name in ("title", "description")]
    if sum(map(len, texts)) > MOST_EMBED_SIGNS:
        raise bad_form(
            "embeds", "MAX_EMBED_SIZE_EXCEEDED", f"Embed size exceeds maximum size of {MOST_EMBED_SIGNS}", LENGTH
        )


def _judge_nonce(payload: Mapping[str, Any]) -> None:
    nonce = payload.get("nonce")
    if nonce is None:
        return
    if isinstance(nonce, bool) or not isinstance(nonce, int | str):
        raise bad_form("nonce", "NONCE_TYPE_TYPE_CONVERT", "Must be a string or an integer.")
    if len(str(nonce)) > MOST_NONCE:
        raise too_long("nonce", MOST_NONCE)


def _judge_mentions(payload: Mapping[str, Any], complain: Complain) -> None:
    """What the text would ring for is nothing that a model's words should do."""
    allowed = payload.get("allowed_mentions")
    content = str(payload.get("content") or "")
    if not isinstance(allowed, Mapping):
        if "@everyone" in content or "@here" in content or "<@" in content:
            complain(PING, "The text would ring for people: allowed_mentions is missing.")
        return
    parse = allowed.get("parse", [])
    for name in ("users", "roles"):
        ids = allowed.get(name) or []
        if ids and name in parse:
            raise bad_form("allowed_mentions", "MESSAGE_ALLOWED_MENTIONS_PARSE_EXCLUSIVE", f"{name} is named twice.")
        if len(ids) > MOST_MENTION_IDS:
            raise too_long(f"allowed_mentions.{name}", MOST_MENTION_IDS)
    if "everyone" in parse and ("@everyone" in content or "@here" in content):
        complain(PING, "The text rings for everyone.")


def judge_components(rows: Any) -> None:
    if not isinstance(rows, list) or len(rows) > MOST_ROWS:
        raise bad_form("components", "BASE_TYPE_BAD_LENGTH", f"Must be between 1 and {MOST_ROWS} in length.", BUTTONS)
    seen: set[str] = set()
    for place, row in enumerate(rows):
        buttons = row.get("components") if isinstance(row, Mapping) and row.get("type") == 1 else None
        if not isinstance(buttons, list) or not 1 <= len(buttons) <= MOST_ROW_BUTTONS:
            raise bad_form(
                f"components.{place}.components",
                "BASE_TYPE_BAD_LENGTH",
                f"Must be between 1 and {MOST_ROW_BUTTONS} in length.",
                BUTTONS,
            )
        for number, button in enumerate(buttons):
            _judge_button(f"components.{place}.components.{number}", button, seen)


def _judge_button(path: str, button: Any, seen: set[str]) -> None:
    if not isinstance(button, Mapping) or button.get("type") != 2 or button.get("style") not in _STYLES:
        raise bad_form(path, "UNION_TYPE_CHOICES", "This is no button.", BUTTONS)
    label, custom = str(button.get("label") or ""), str(button.get("custom_id") or "")
    if not label and not button.get("emoji"):
        raise bad_form(f"{path}.label", "BASE_TYPE_REQUIRED", "This field is required", BUTTONS)
    if len(label) > MOST_LABEL:
        raise too_long(f"{path}.label", MOST_LABEL, BUTTONS)
    if not 1 <= len(custom) <= MOST_CUSTOM_ID:
        raise too_long(f"{path}.custom_id", MOST_CUSTOM_ID, BUTTONS)
    if custom in seen:
        raise bad_form(
            f"{path}.custom_id", "COMPONENT_CUSTOM_ID_DUPLICATED", "Component custom id cannot be duplicated", BUTTONS
        )
    seen.add(custom)
