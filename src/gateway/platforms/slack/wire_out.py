"""What Slack is told: a part, a file or a sign becomes the parameters of a call. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from gateway.platforms.face import Part
from gateway.platforms.slack.wire import CUT, is_ts
from gateway.platforms.slack.wire_text import escape
from hermes_base.inbound import Address
from hermes_base.text.whole_text import clean_text

MRKDWN = "slack"  # the dialect of parts that are sent with their markup
MOST_TEXT = 4000  # characters of a message, its escapes counted
MOST_SECTION, MOST_LABEL, MOST_VALUE = 3000, 75, 2000
MOST_IN_ROW, MOST_BLOCKS = 25, 50
TAKEN_SIGN = "eyes"
KEY_EVENT = "hermes_message"  # what our messages carry beside their text: the key, by which they are found again
_FENCE = "```"


@dataclass(frozen=True, slots=True)
class SlackCall:
    """A method of the Web API and what it is given. `form`: as fields, since not every method reads JSON."""

    method: str
    params: Mapping[str, Any]
    form: bool = False


# --- messages


def make_message(part: Part) -> SlackCall:
    thread = {"thread_ts": part.address.thread} if is_ts(part.address.thread) else {}
    key = {"metadata": {"event_type": KEY_EVENT, "event_payload": {"key": part.key}}} if part.key else {}
    marked = {} if part.markup == MRKDWN else {"mrkdwn": False}
    buttons = {"blocks": blocks} if (blocks := _make_blocks(part)) else {}
    return SlackCall(
        "chat.postMessage",
        {"channel": part.address.chat, "text": write_text(part), **thread, **buttons, **key, **marked, **_QUIET},
    )


def make_edit(message: str, part: Part) -> SlackCall:
    """Without choices the buttons of the message go. The key stays with it."""
    return SlackCall(
        "chat.update",
        {
            "channel": part.address.chat,
            "ts": message,
            "text": write_text(part),
            "blocks": _make_blocks(part),
            "parse": "none",
            "link_names": False,
        },
    )


def make_reaction(address: Address, message: str) -> SlackCall:
    return SlackCall("reactions.add", {"channel": address.chat, "timestamp": message, "name": TAKEN_SIGN})


#: Slack would open the addresses in a text to show a picture of them before anybody has clicked them, and would call
#: people whose names stand in it.
_QUIET: Mapping[str, Any] = {"unfurl_links": False, "unfurl_media": False, "parse": "none", "link_names": False}


def write_text(part: Part) -> str:
    """The text as Slack reads it. One that is in no markup of Slack's has nothing in it that calls anybody."""
    text = clean_text(part.text)
    return text if part.markup == MRKDWN else escape(text)


def measure(part: Part) -> int:
    """How long a text is for Slack. A plain one is counted as it is seen: its escapes are ours."""
    return len(part.text)


# --- buttons


def _make_blocks(part: Part) -> list[dict[str, Any]]:
    """The text and its buttons; nothing where there are none, or where they do not fit."""
    if not part.question or not part.choices:
        return []
    buttons = [_make_button(part.question, index, choice) for index, choice in enumerate(part.choices)]
    if any(len(button["value"]) > MOST_VALUE for button in buttons):
        return []  # a question whose name is this long is answered by a text
    rows = [buttons[start : start + MOST_IN_ROW] for start in range(0, len(buttons), MOST_IN_ROW)]
    texts = [_make_section(piece, part.markup == MRKDWN) for piece in cut_sections(_section_text(part))]
    blocks = [*texts, *({"type": "actions", "elements": row} for row in rows)]
    return blocks if len(blocks) <= MOST_BLOCKS else []


def _section_text(part: Part) -> str:
    """Plain text in a block is shown as it stands, escapes and all."""
    return write_text(part) if part.markup == MRKDWN else clean_text(part.text)


def _make_section(text: str, marked: bool) -> dict[str, Any]:
    kind = {"type": "mrkdwn", "verbatim": True} if marked else {"type": "plain_text", "emoji": False}
    return {"type": "section", "text": {**kind, "text": text}}


def _make_button(question: str, index: int, choice: str) -> dict[str, Any]:
    line = " ".join(clean_text(choice).split()) or "?"
    label = line if len(line) <= MOST_LABEL else line[: MOST_LABEL - 1] + CUT
    return {
        "type": "button",
        "action_id": f"choice-{index}",
        "value": f"{question}:{index}",
        "text": {"type": "plain_text", "text": label, "emoji": False},
    }


def cut_sections(text: str) -> list[str]:
    """A text in pieces that fit into a block each, cut at lines or spaces; code that is cut is code in both."""
    pieces: list[str] = []
    while len(text) > MOST_SECTION:
        room = MOST_SECTION - len(_FENCE) - 1
        end = max(text.rfind("\n", 1, room), text.rfind(" ", 1, room) if "\n" not in text[1:room] else -1)
        end = end if end > 0 else room
        piece, text = text[:end], text[end:].lstrip("\n")
        if piece.count(_FENCE) % 2:
            piece, text = f"{piece}\n{_FENCE}", f"{_FENCE}\n{text}"
        pieces.append(piece)
    return [*pieces, text] if text.strip() else pieces


# --- files


def make_upload(name: str, size: int) -> SlackCall:
    return SlackCall("files.getUploadURLExternal", {"filename": name, "length": size}, form=True)


def make_share(part: Part, file_id: str, name: str) -> SlackCall:
    thread = {"thread_ts": part.address.thread} if is_ts(part.address.thread) else {}
    comment = {"initial_comment": write_text(part)} if part.text.strip() else {}
    place = {"channel_id": part.address.chat, **thread}
    return SlackCall("files.completeUploadExternal", {"files": [{"id": file_id, "title": name}], **place, **comment})


def is_shown(file: Any, chat: str) -> bool:
    """Whether a file stands in a chat."""
    if not isinstance(file, Mapping):
        return False
    shares = file.get("shares")
    places = list(shares.values()) if isinstance(shares, Mapping) else []
    listed = [file.get(name) for name in ("channels", "groups", "ims")]
    return any(chat in place for place in (*places, *listed) if isinstance(place, Mapping | list))


# --- reading


def make_history(channel: str, thread: str, oldest: str, cursor: str, limit: int) -> SlackCall:
    """What was said in a chat, or in a thread of it, after a moment; empty: from the newest or the first on."""
    params: dict[str, Any] = {"channel": channel, "limit": limit, "include_all_metadata": True}
    params |= {name: value for name, value in (("ts", thread), ("oldest", oldest), ("cursor", cursor)) if value}
    return SlackCall("conversations.replies" if thread else "conversations.history", params, form=True)


def read_key(message: Mapping[str, Any]) -> str:
    """The key of a message of ours; empty: it has none."""
    metadata = message.get("metadata")
    if not isinstance(metadata, Mapping) or metadata.get("event_type") != KEY_EVENT:
        return ""
    payload = metadata.get("event_payload")
    key = payload.get("key") if isinstance(payload, Mapping) else None
    return key if isinstance(key, str) else ""
