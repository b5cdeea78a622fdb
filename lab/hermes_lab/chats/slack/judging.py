"""What a good app does not send: texts that are too long or call people, and blocks that are not as documented."""

import re
from collections.abc import Callable, Mapping
from typing import Any

from hermes_lab.chats.slack.slack_world import SlackError

LENGTH, BLOCKS, CALLS, MARKUP, FIELDS = "length", "blocks", "calls", "markup", "fields"  # kinds of complaints
MOST_TEXT, ADVISED_TEXT = 40_000, 4_000
MOST_BLOCKS, MOST_SECTION, MOST_ELEMENTS, MOST_LABEL, MOST_VALUE, MOST_ID = 50, 3000, 25, 75, 2000, 255
_CALL = re.compile(r"<!(channel|here|everyone)\b|<@[UW]|<!subteam")
_LINK = re.compile(r"<(?:https?://|mailto:|tel:)[^<>]*>")
_BARE = re.compile(r"&(?!amp;|lt;|gt;)|<|(?<!^)>", re.MULTILINE)

Complain = Callable[[str, str], None]


def judge_text(text: str, complain: Complain, *, update: bool = False) -> None:
    shown = unescape(text)
    if len(shown) > (ADVISED_TEXT if update else MOST_TEXT):
        raise SlackError("msg_too_long", LENGTH)
    if len(shown) > ADVISED_TEXT:
        complain(LENGTH, f"A text of {len(shown)} characters; 4,000 are advised.")
    judge_signs(text, complain)


def judge_signs(text: str, complain: Complain) -> None:
    if _CALL.search(text):
        complain(CALLS, "The text calls people.")
        return
    if _BARE.search(_LINK.sub("", re.sub(r"^(> ?)+", "", text, flags=re.MULTILINE))):
        complain(MARKUP, "A sign of the text is not escaped.")


def unescape(text: str) -> str:
    return text.replace("&lt;", "<").replace("&gt;", ">").replace("&amp;", "&")


def judge_blocks(blocks: Any, complain: Complain) -> list[dict[str, Any]]:
    if not isinstance(blocks, list) or len(blocks) > MOST_BLOCKS:
        raise SlackError("invalid_blocks_format" if not isinstance(blocks, list) else "invalid_blocks", BLOCKS)
    for block in blocks:
        judge = _JUDGES.get(str(block.get("type"))) if isinstance(block, Mapping) else None
        if judge is None:
            raise SlackError("invalid_blocks", BLOCKS)
        judge(block, complain)
    return blocks


def _judge_section(block: Mapping[str, Any], complain: Complain) -> None:
    text = _read_text(block.get("text"), ("mrkdwn", "plain_text"), MOST_SECTION)
    if block["text"]["type"] == "mrkdwn":
        judge_signs(text, complain)


def _judge_actions(block: Mapping[str, Any], complain: Complain) -> None:
    del complain
    elements = block.get("elements")
    if not isinstance(elements, list) or not 1 <= len(elements) <= MOST_ELEMENTS:
        raise SlackError("invalid_blocks", BLOCKS)
    ids = [str(element.get("action_id")) for element in elements]
    if len(set(ids)) != len(ids) or any(not 1 <= len(id) <= MOST_ID for id in ids):
        raise SlackError("invalid_blocks", BLOCKS)
    for element in elements:
        _read_text(element.get("text"), ("plain_text",), MOST_LABEL)
        if element.get("type") != "button" or len(str(element.get("value") or "")) > MOST_VALUE:
            raise SlackError("invalid_blocks", BLOCKS)


def _read_text(value: Any, kinds: tuple[str, ...], most: int) -> str:
    text = value.get("text") if isinstance(value, Mapping) and value.get("type") in kinds else None
    if not isinstance(text, str) or not 1 <= len(text) <= most:
        raise SlackError("invalid_blocks", BLOCKS)
    return text


_JUDGES: Mapping[str, Callable[[Mapping[str, Any], Complain], None]] = {
    "section": _judge_section,
    "actions": _judge_actions,
}
