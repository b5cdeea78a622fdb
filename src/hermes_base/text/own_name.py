"""Our own name at the beginning of what is said to us in a group: it is no part of an answer or a command. Pure."""

import re
from dataclasses import replace

from hermes_base.inbound import Inbound

_NAME = re.compile(r"(?<!\w)@[^\s,:]+|<@[^<>\s]+>")  # as apps write that somebody is meant
_BETWEEN = " \t\r\n,:"


def drop_name(text: str, name: str) -> str:
    """The text without the name that it begins with; where there is nothing else, it stays."""
    rest = text.removeprefix(name).lstrip(_BETWEEN) if name else text
    return rest or text


def drop_guessed_name(inbound: Inbound) -> Inbound:
    """The same where a platform does not say how it was written. Whoever speaks to us by name, and not by a reply, and
    names one alone, and at the beginning, names us."""
    text = inbound.text.lstrip()
    names = _NAME.findall(text)
    is_guessed = inbound.address.kind != "dm" and inbound.mentioned and not inbound.reply_to and not inbound.forwarded
    if not is_guessed or len(names) != 1 or not text.startswith(names[0]):
        return inbound
    return replace(inbound, text=drop_name(text, names[0]))
