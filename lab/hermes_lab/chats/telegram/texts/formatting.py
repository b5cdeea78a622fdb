"""From the text of a call to what people see: parsed, settled, and short enough."""

from collections.abc import Mapping
from typing import Any

from hermes_lab.chats.telegram.api_values import (
    FIELDS,
    LENGTH,
    MARKUP,
    MOST_CAPTION,
    MOST_ENTITIES,
    MOST_RAW_BYTES,
    MOST_TEXT,
    Complain,
    bad,
    rows_of,
)
from hermes_lab.chats.telegram.texts.entities import Entity, find_entities, order_entities, read_entities, settle
from hermes_lab.chats.telegram.texts.html_markup import HtmlReader
from hermes_lab.chats.telegram.texts.markdown_markup import MarkdownReader, read_old_markdown

_READERS = {
    "html": lambda text: HtmlReader(text).read(),
    "markdownv2": lambda text: MarkdownReader(text).read(),
    "markdown": read_old_markdown,
}


def format_text(
    raw: str, parse_mode: str, given: Any, complain: Complain, is_caption: bool = False
) -> tuple[str, list[Entity]]:
    """Text and entities as they are kept. An empty one is for the caller to judge."""
    if len(raw.encode("utf-8", "surrogatepass")) > MOST_RAW_BYTES:
        raise bad("message caption is too long" if is_caption else "text is too long", LENGTH)
    raw = "".join(char for char in raw if char in "\n\t" or char >= " ").replace("\t", " ")
    mode = parse_mode.lower()
    if mode and mode not in _READERS:
        raise bad("unsupported parse_mode", FIELDS)
    if mode:
        text, entities = _READERS[mode](raw)
    else:
        text, entities = raw, read_entities(rows_of(given or [], "entities"), raw, complain)
    text, entities = settle(text, entities)
    if len(text) > (MOST_CAPTION if is_caption else MOST_TEXT):
        raise bad("message caption is too long" if is_caption else "message is too long", LENGTH)
    if len(entities) > MOST_ENTITIES:
        complain(MARKUP, f"{len(entities)} entities; only {MOST_ENTITIES} are kept.")
    entities = entities[:MOST_ENTITIES]
    return text, order_entities([*entities, *find_entities(text, entities)])


def describe_text(text: str, entities: list[Entity], prefix: str = "") -> Mapping[str, Any]:
    """The fields of a message; `prefix` is that of a caption."""
    name = prefix or "text"
    fields: dict[str, Any] = {name: text} if text else {}
    if entities:
        fields["caption_entities" if prefix else "entities"] = [entity.describe() for entity in entities]
    return fields
