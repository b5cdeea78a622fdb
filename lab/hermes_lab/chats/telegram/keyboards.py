"""Buttons under a message, as Telegram takes them."""

from collections.abc import Mapping
from typing import Any

from hermes_lab.chats.telegram.api_values import BUTTONS, Complain, Parameters, bad

MOST_BUTTONS, MOST_IN_ROW, MOST_DATA_BYTES, MOST_BYTES = 100, 8, 64, 10_000
_ACTIONS = frozenset({"url", "callback_data", "web_app", "login_url", "switch_inline_query", "copy_text", "pay"})
_OTHER_KINDS = frozenset({"keyboard", "remove_keyboard", "force_reply"})


def read_keyboard(parameters: Parameters, complain: Complain) -> dict[str, Any] | None:
    """The inline keyboard of a call, None where it has none."""
    markup = parameters.json("reply_markup", dict, "reply keyboard markup")
    if not markup:
        return None
    if len(parameters.text("reply_markup").encode()) > MOST_BYTES:
        raise bad("reply markup is too long", BUTTONS)
    if "inline_keyboard" not in markup:
        if not _OTHER_KINDS & markup.keys():
            raise bad("can't parse reply keyboard markup: unknown kind", BUTTONS)
        return None
    rows = markup["inline_keyboard"]
    if not isinstance(rows, list) or not all(isinstance(row, list) for row in rows):
        raise bad('field "inline_keyboard" must be of type Array', BUTTONS)
    count = sum(len(row) for row in rows)
    if count > MOST_BUTTONS:
        raise bad("REPLY_MARKUP_TOO_LONG", BUTTONS)
    for row in rows:
        if len(row) > MOST_IN_ROW:
            complain(BUTTONS, f"{len(row)} buttons in a row; only {MOST_IN_ROW} are shown in one.")
        for button in row:
            _check_button(button)
    kept = [[dict(button) for button in row] for row in rows if row]
    return {"inline_keyboard": kept} if kept else None


def _check_button(button: Any) -> None:
    if not isinstance(button, Mapping):
        raise bad("can't parse inline keyboard button: expected an Object", BUTTONS)
    if not isinstance(button.get("text"), str):
        raise bad('can\'t parse inline keyboard button: field "text" must be of type String', BUTTONS)
    if not button["text"].strip():
        raise bad("inline keyboard button text must be non-empty", BUTTONS)
    if len(_ACTIONS & button.keys()) != 1:
        raise bad("text buttons are unallowed in the inline keyboard", BUTTONS)
    data = button.get("callback_data")
    if data is not None and not (isinstance(data, str) and 1 <= len(data.encode()) <= MOST_DATA_BYTES):
        raise bad("BUTTON_DATA_INVALID", BUTTONS)
