"""What the body of a message has to be: required fields, lengths, buttons and rows. Pure."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from hermes_lab.chats.whatsapp.graph_values import (
    BAD_PARAMETER,
    BAD_VALUE,
    BUTTONS,
    FIELDS,
    MISSING_PARAMETER,
    GraphError,
    limit,
    need,
    refuse_unknown,
)

MOST_TEXT, MOST_BODY, MOST_LIST_BODY, MOST_FOOTER, MOST_CAPTION, MOST_DATA = 4096, 1024, 4096, 60, 1024, 512
_ENVELOPE = {"messaging_product", "recipient_type", "to", "recipient", "type", "context", "biz_opaque_callback_data"}
Body = Mapping[str, Any]


def judge_message(body: Body) -> str:
    """The type of a message that is as documented; GraphError for any other."""
    if need(body, "messaging_product", str) != "whatsapp":
        raise GraphError(BAD_PARAMETER, "Param messaging_product must be whatsapp", FIELDS)
    if need(body, "recipient_type", str) != "individual":
        raise GraphError(BAD_PARAMETER, "Param recipient_type must be individual", FIELDS)
    if ("to" in body) == ("recipient" in body):
        raise GraphError(MISSING_PARAMETER, "Either to or recipient is needed", FIELDS)
    kind = str(need(body, "type", str))
    judge = _KINDS.get(kind)
    if judge is None:
        raise GraphError(BAD_PARAMETER, f"Param type must be one of {', '.join(_KINDS)}", FIELDS)
    refuse_unknown(body, _ENVELOPE | {kind})
    limit(str(body.get("biz_opaque_callback_data") or ""), MOST_DATA, "biz_opaque_callback_data")
    judge(need(body, kind, dict), kind)
    return kind


def _judge_text(text: Body, kind: str) -> None:
    del kind
    refuse_unknown(text, {"body", "preview_url"}, "text.")
    limit(need(text, "body", str, "text."), MOST_TEXT, "text['body']")
    if not text["body"].strip():
        raise GraphError(BAD_VALUE, "text.body is blank", FIELDS)


def _judge_media(media: Body, kind: str) -> None:
    captioned = {"caption"} if kind != "audio" else set[str]()
    named = {"filename"} if kind == "document" else set[str]()
    refuse_unknown(media, {"id", "link"} | captioned | named, f"{kind}.")
    if ("id" in media) == ("link" in media):
        raise GraphError(BAD_PARAMETER, f"{kind} needs id or link, and not both", FIELDS)
    limit(str(media.get("caption") or ""), MOST_CAPTION, f"{kind}['caption']")


def _judge_interactive(interactive: Body, kind: str) -> None:
    del kind
    form = need(interactive, "type", str, "interactive.")
    if form not in ("button", "list"):
        raise GraphError(BAD_PARAMETER, "interactive.type must be button or list", FIELDS)
    refuse_unknown(interactive, {"type", "header", "body", "footer", "action"}, "interactive.")
    text = need(need(interactive, "body", dict, "interactive."), "text", str, "interactive.body.")
    limit(text, MOST_BODY if form == "button" else MOST_LIST_BODY, "interactive.body.text")
    footer = interactive.get("footer")
    if footer is not None:
        limit(need(footer, "text", str, "interactive.footer."), MOST_FOOTER, "interactive.footer.text")
    action = need(interactive, "action", dict, "interactive.")
    (_judge_buttons if form == "button" else _judge_list)(action)


def _judge_buttons(action: Body) -> None:
    refuse_unknown(action, {"buttons"}, "action.")
    buttons = need(action, "buttons", list, "action.")
    if not 1 <= len(buttons) <= 3:
        raise GraphError(BAD_VALUE, "There are 1 to 3 buttons", BUTTONS)
    replies = [need(button, "reply", dict, "button.") for button in buttons if need(button, "type", str) == "reply"]
    if len(replies) < len(buttons):
        raise GraphError(BAD_VALUE, "Buttons are of type reply", BUTTONS)
    _judge_choices(replies, most_id=256, most_title=20)
    titles = [reply["title"] for reply in replies]
    if len(set(titles)) < len(titles):
        raise GraphError(BAD_VALUE, "Titles of buttons are not unique", BUTTONS)


def _judge_list(action: Body) -> None:
    refuse_unknown(action, {"button", "sections"}, "action.")
    limit(need(action, "button", str, "action."), 20, "action.button", BUTTONS)
    sections = need(action, "sections", list, "action.")
    if not 1 <= len(sections) <= 10:
        raise GraphError(BAD_VALUE, "There are 1 to 10 sections", BUTTONS)
    for section in sections:
        if len(sections) > 1:
            limit(need(section, "title", str, "section."), 24, "section.title", BUTTONS)
    rows = [row for section in sections for row in need(section, "rows", list, "section.")]
    if not 1 <= len(rows) <= 10:
        raise GraphError(BAD_VALUE, "There are 1 to 10 rows in all", BUTTONS)
    _judge_choices(rows, most_id=200, most_title=24)
    for row in rows:
        refuse_unknown(row, {"id", "title", "description"}, "row.")
        limit(str(row.get("description") or ""), 72, "row.description", BUTTONS)


def _judge_choices(choices: Sequence[Body], most_id: int, most_title: int) -> None:
    for choice in choices:
        limit(need(choice, "id", str, "reply."), most_id, "reply.id", BUTTONS)
        title = limit(need(choice, "title", str, "reply."), most_title, "reply.title", BUTTONS)
        if not title.strip() or title != title.strip():
            raise GraphError(BAD_VALUE, "A title is blank, or has blanks at its ends", BUTTONS)
    ids = [choice["id"] for choice in choices]
    if len(set(ids)) < len(ids):
        raise GraphError(BAD_VALUE, "Ids of choices are not unique", BUTTONS)


def _judge_reaction(reaction: Body, kind: str) -> None:
    del kind
    refuse_unknown(reaction, {"message_id", "emoji"}, "reaction.")
    need(reaction, "message_id", str, "reaction.")


_KINDS: Mapping[str, Callable[[Body, str], None]] = {
    "text": _judge_text,
    "image": _judge_media,
    "audio": _judge_media,
    "video": _judge_media,
    "document": _judge_media,
    "interactive": _judge_interactive,
    "reaction": _judge_reaction,
}
MEDIA_KINDS = frozenset({"image", "audio", "video", "document"})
