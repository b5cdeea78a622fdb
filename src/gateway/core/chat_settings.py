"""What the settings say of one chat: its model, its instructions, its tools. Pure.

`platforms.<name>.chats.<chat id>` wins over `platforms.<name>`, and that over what holds for all; a thread of a chat
has a section of its own under `<chat id>/<thread id>`, or shares that of its chat.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from gateway.platforms.platform_list import spec_of
from hermes_base.account_names import drop_account
from hermes_base.settings import Settings

CHATS = "chats"
FIELDS = ("model", "provider", "instructions", "toolsets")


@dataclass(frozen=True, slots=True)
class ChatSettings:
    """Empty: what holds for all."""

    model: str = ""
    provider: str = ""
    instructions: str = ""
    toolsets: tuple[str, ...] = ()


NOTHING_SET = ChatSettings()


def read_chat(
    settings: Settings, platform: str, chat: str, thread: str = "", toolsets: tuple[str, ...] = ()
) -> ChatSettings:
    """What is set for a chat; `toolsets` are the platform's own. Model and provider are set together: whoever names one
    of them does not get the other from elsewhere."""
    found = [_read_section(section) for section in _list_sections(settings, platform, chat, thread)]
    named = next((one for one in found if one.model or one.provider), NOTHING_SET)
    return ChatSettings(
        named.model,
        named.provider,
        next((one.instructions for one in found if one.instructions), ""),
        next((one.toolsets for one in found if one.toolsets), toolsets),
    )


def find_faults(platforms: Mapping[str, Any]) -> Iterator[str]:
    """What is set for chats and cannot be meant so, in sentences."""
    for name, section in platforms.items():
        chats = section.get(CHATS) if isinstance(section, Mapping) else None
        if chats is not None and not isinstance(chats, Mapping):
            yield f"platforms.{name}.{CHATS} must be a section by chat id; it is left out."
        every = chats.items() if isinstance(chats, Mapping) else ()
        for chat, own in every:
            place = f"platforms.{name}.{CHATS}.{chat}"
            if not isinstance(own, Mapping):
                yield f"{place} must be a section with {', '.join(FIELDS)}; it is left out."
                continue
            yield from (f"{place}.{field} is not known." for field in own if field not in FIELDS)
            yield from (
                f"{place}.{field} must be text." for field in FIELDS[:3] if not isinstance(own.get(field, ""), str)
            )
            if own.get("toolsets") is not None and not _read_names(own["toolsets"]):
                yield f"{place}.toolsets must be names, as a list or with commas between them."


def _list_sections(settings: Settings, platform: str, chat: str, thread: str) -> Iterator[Mapping[str, Any]]:
    """Those that say something of the chat, the closest first."""
    section = settings.platforms.get(platform)
    if not isinstance(section, Mapping):
        return
    chats = section.get(CHATS)
    if isinstance(chats, Mapping):
        bring = spec_of(platform).chat_ids.bring
        own = {bring(str(id)): value for id, value in chats.items()}  # ids are often numbers in a settings file
        bare = drop_account(section, chat)  # a setting may be for one account, or for the chat in all of them
        for name in dict.fromkeys((chat, bare)):
            for id in (f"{name}/{thread}", name) if thread else (name,):
                if isinstance(own.get(bring(id)), Mapping):
                    yield own[bring(id)]
    yield section


def _read_section(section: Mapping[str, Any]) -> ChatSettings:
    texts = {name: str(section[name]).strip() for name in FIELDS[:3] if isinstance(section.get(name), str)}
    return ChatSettings(**texts, toolsets=_read_names(section.get("toolsets")))


def _read_names(value: Any) -> tuple[str, ...]:
    every = value.split(",") if isinstance(value, str) else value if isinstance(value, list | tuple) else ()
    return tuple(name.strip() for name in every if isinstance(name, str) and name.strip())
