"""The text of Slack's messages: its entities become what a reader sees, and typed commands what they are here. Pure."""

import re
from collections.abc import Mapping

from hermes_base.command_table import find_command

_ENTITY = re.compile(r"<([^<>]*)>")
_PERSON = re.compile(r"<@([UW][A-Z0-9]+)(?:\|[^<>]*)?>")
_TYPED = re.compile(r"!([A-Za-z][\w-]*)(?=\s|$)")
#: What Slack escapes, and nothing else; the ampersand last.
_ESCAPES = (("&lt;", "<"), ("&gt;", ">"), ("&amp;", "&"))


def show_text(text: str, names: Mapping[str, str], us: str, our_name: str) -> str:
    """A text as people see it. Where it begins with our name, that is left out: it only says to whom it is said."""
    if us:
        text = re.sub(rf"\A\s*<@{us}(?:\|[^<>]*)?>[\s,:]*", "", text)
    known = {**names, us: our_name} if us else names
    return unescape(_ENTITY.sub(lambda entity: _show_entity(entity[1], known), text))


def _show_entity(inner: str, names: Mapping[str, str]) -> str:
    """`@U1`, `#C1|name`, `!here`, `!subteam^S1|@team`, `!date^1^form|text`, `https://a.example|words`"""
    target, _, label = inner.partition("|")
    match target[:1]:
        case "@":
            return "@" + (names.get(target[1:]) or label.removeprefix("@") or target[1:])
        case "#":
            return "#" + (label or target[1:])
        case "!":
            return label or "@" + target[1:].partition("^")[0]
    bare = target.removeprefix("mailto:").removeprefix("tel:")
    if not label or label in (bare, target):
        return bare
    return f"{label} ({target})"


def unescape(text: str) -> str:
    for written, sign in _ESCAPES:
        text = text.replace(written, sign)
    return text


def escape(text: str) -> str:
    """A text in which nothing is an entity: nobody is called by it, and no link is made."""
    for written, sign in reversed(_ESCAPES):
        text = text.replace(sign, written)
    return text


def names_person(text: str, user: str) -> bool:
    return bool(user) and user in list_people(text)


def list_people(text: str) -> list[str]:
    """The ids of those whom a text names."""
    return _PERSON.findall(text)


def read_command(text: str, commands: frozenset[str]) -> str:
    """A text with a typed command as it is called here. Slack's own programs send no text that begins with a stroke:
    `!stop` is `/stop`. What is no command stays a text."""
    typed = _TYPED.match(text)
    if typed is None:
        return text
    name = typed[1].lower()
    return f"/{name}{text[typed.end() :]}" if name in commands or find_command(name) else text
