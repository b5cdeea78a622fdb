"""What WhatsApp is told: a part, a file or a sign becomes the body of a call. Pure."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from gateway.platforms.face import NeverTaken, Part
from gateway.platforms.whatsapp.wire import CUT
from hermes_base.inbound import Address, FileRef
from hermes_base.text.whole_text import clean_text

MOST_TEXT, MOST_BODY, MOST_CAPTION = 4096, 1024, 1024
MOST_BUTTONS, MOST_BUTTON = 3, 20
MOST_ROWS, MOST_ROW, MOST_DESCRIPTION, MOST_ROW_ID = 10, 24, 72, 200
MOST_KEY = 512
OPEN_LIST = "Choose"  # what opens the list of answers
ASKED_ABOVE = "Your answer?"  # stands over the buttons of a question that is too long to stand there itself
Body = dict[str, Any]


def measure(text: str) -> int:
    """UTF-16 units: never fewer than characters, whichever of them is counted."""
    return len(text.encode("utf-16-le", "surrogatepass")) // 2


def is_message_id(platform_id: str) -> bool:
    return platform_id.startswith("wamid.")


# --- messages


def make_messages(part: Part) -> list[Body]:
    """What is sent for a part, in order; the last one is the message that counts. There are several only for a question
    that is longer than what may stand over buttons."""
    text = clean_text(part.text)
    if not part.question or not part.choices:
        return [_make_text(part, text)]
    labels = [_one_line(choice) for choice in part.choices]
    asking = _make_choices(part.question, labels)
    if asking is None:  # it is answered by a text
        numbered = "\n".join(f"{number}. {label}" for number, label in enumerate(labels, 1))
        whole = f"{text}\n\n{numbered}"
        texts = [whole] if measure(whole) <= MOST_TEXT else [text, _cut(numbered, MOST_TEXT)]
        return [*(_make_text(_go_ahead(part), one) for one in texts[:-1]), _make_text(part, texts[-1])]
    if measure(text) <= MOST_BODY:
        return [_make_interactive(part, asking, text)]
    return [_make_text(_go_ahead(part), text), _make_interactive(replace(part, reply_to=""), asking, ASKED_ABOVE)]


def make_read(message: str) -> Body:
    return {"messaging_product": "whatsapp", "status": "read", "message_id": message}


def make_typing(message: str) -> Body:
    """Typing is shown in answer to a message, which is marked as read with it."""
    return {**make_read(message), "typing_indicator": {"type": "text"}}


def _make_text(part: Part, text: str) -> Body:
    """WhatsApp's servers would open the first address in a text to show a picture of it, so there is none."""
    return {**_envelope(part), "type": "text", "text": {"body": text, "preview_url": False}}


def _make_interactive(part: Part, asking: Body, text: str) -> Body:
    return {**_envelope(part), "type": "interactive", "interactive": {**asking, "body": {"text": text}}}


def _envelope(part: Part) -> Body:
    body: Body = {"messaging_product": "whatsapp", "recipient_type": "individual", **_recipient(part.address)}
    if is_message_id(part.reply_to):
        body["context"] = {"message_id": part.reply_to}
    if part.key and len(part.key) <= MOST_KEY:
        body["biz_opaque_callback_data"] = part.key
    return body


def read_key(body: Body) -> str:
    """What comes back with what becomes of the message."""
    return str(body.get("biz_opaque_callback_data") or "")


def _go_ahead(part: Part) -> Part:
    """Of a part that is several messages each has a key of its own."""
    return replace(part, key=f"{part.key}/ahead" if part.key else "")


def _recipient(address: Address) -> Body:
    """By number, or by the id of somebody who shows none."""
    return {"to" if re.fullmatch(r"[0-9]+", address.chat) else "recipient": address.chat}


# --- choices


def _make_choices(question: str, labels: Sequence[str]) -> Body | None:
    """Up to three buttons whose labels are shown whole, else a list of up to ten; None: it fits neither."""
    ids = [f"{question}:{index}" for index in range(len(labels))]
    if len(labels) > MOST_ROWS or any(len(id) > MOST_ROW_ID for id in ids):
        return None
    is_short = len(labels) <= MOST_BUTTONS and all(measure(label) <= MOST_BUTTON for label in labels)
    pairs = list(zip(ids, labels, strict=True))
    if is_short and len(set(labels)) == len(labels):
        buttons = [{"type": "reply", "reply": {"id": id, "title": label}} for id, label in pairs]
        return {"type": "button", "action": {"buttons": buttons}}
    rows = [_make_row(id, label) for id, label in pairs]
    return {"type": "list", "action": {"button": OPEN_LIST, "sections": [{"rows": rows}]}}


def _make_row(id: str, label: str) -> Body:
    """A label that is too long for its line stands below it, too."""
    row = {"id": id, "title": _cut(label, MOST_ROW)}
    return row if row["title"] == label else {**row, "description": _cut(label, MOST_DESCRIPTION)}


def _one_line(text: str) -> str:
    return " ".join(clean_text(text).split()) or "?"


def _cut(text: str, most: int) -> str:
    if measure(text) <= most:
        return text
    kept = text.encode("utf-16-le")[: 2 * (most - 1)].decode("utf-16-le", "ignore")
    return kept.rstrip() + CUT


# --- files


@dataclass(frozen=True, slots=True)
class UploadPlan:
    """As what a file goes up."""

    kind: str  # of the message: image, audio, video, document
    mime: str


_MEGABYTE = 1_000_000
_MOST_BYTES: Mapping[str, int] = {"image": 5, "audio": 16, "video": 16, "document": 100}
_OFFICE = "application/vnd.openxmlformats-officedocument."
#: By the end of the name; what WhatsApp takes is a short list.
_PLANS: Mapping[str, UploadPlan] = {
    "jpg": UploadPlan("image", "image/jpeg"),
    "jpeg": UploadPlan("image", "image/jpeg"),
    "png": UploadPlan("image", "image/png"),
    "ogg": UploadPlan("audio", "audio/ogg"),
    "oga": UploadPlan("audio", "audio/ogg"),
    "opus": UploadPlan("audio", "audio/ogg"),
    "mp3": UploadPlan("audio", "audio/mpeg"),
    "m4a": UploadPlan("audio", "audio/mp4"),
    "aac": UploadPlan("audio", "audio/aac"),
    "amr": UploadPlan("audio", "audio/amr"),
    "mp4": UploadPlan("video", "video/mp4"),
    "3gp": UploadPlan("video", "video/3gpp"),
    "pdf": UploadPlan("document", "application/pdf"),
    "doc": UploadPlan("document", "application/msword"),
    "docx": UploadPlan("document", f"{_OFFICE}wordprocessingml.document"),
    "xls": UploadPlan("document", "application/vnd.ms-excel"),
    "xlsx": UploadPlan("document", f"{_OFFICE}spreadsheetml.sheet"),
    "ppt": UploadPlan("document", "application/vnd.ms-powerpoint"),
    "pptx": UploadPlan("document", f"{_OFFICE}presentationml.presentation"),
}
_TEXT_PLAN = UploadPlan("document", "text/plain")
_CAPTIONED = frozenset({"image", "video", "document"})
_HEAD_BYTES = 65_536  # of a file, by which a text is known


def plan_upload(file: FileRef, data: bytes) -> UploadPlan:
    """As what a file goes up; NeverTaken when WhatsApp takes no such file. Any text is taken as such."""
    plan = _PLANS.get(file.name.rpartition(".")[2].lower()) or (_TEXT_PLAN if _is_text(data[:_HEAD_BYTES]) else None)
    if plan is None:
        raise NeverTaken(
            f"WhatsApp takes no files like {file.name}: JPEG, PNG, sound, MP4, PDF, office documents and texts go."
        )
    most = _MOST_BYTES[plan.kind]
    if len(data) > most * _MEGABYTE:
        raise NeverTaken(f"The file {file.name} is larger than the {most} MB that WhatsApp takes of its kind.")
    if not data:
        raise NeverTaken(f"The file {file.name} is empty, and WhatsApp takes no empty files.")
    return plan


def make_file(part: Part, file: FileRef, plan: UploadPlan, media: str) -> list[Body]:
    """The message with a file that is up already; a caption that it cannot carry goes ahead."""
    caption = clean_text(part.text).strip()
    content: Body = {"id": media}
    if plan.kind == "document":
        content["filename"] = file.name
    carries = plan.kind in _CAPTIONED and measure(caption) <= MOST_CAPTION
    if caption and carries:
        content["caption"] = caption
    ahead = [_make_text(_go_ahead(part), caption)] if caption and not carries else []
    last = replace(part, reply_to="") if ahead else part
    return [*ahead, {**_envelope(last), "type": plan.kind, plan.kind: content}]


def _is_text(head: bytes) -> bool:
    if b"\0" in head:
        return False
    try:
        head.decode()
    except UnicodeDecodeError as error:
        return error.start >= len(head) - 3 and len(head) == _HEAD_BYTES  # cut in the middle of a sign
    return True
