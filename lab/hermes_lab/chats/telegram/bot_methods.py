"""Methods about the bot itself and its chats: who it is, its commands, who is where."""

import re
from collections.abc import Mapping
from typing import Any

from hermes_lab.chats.telegram.api_values import FIELDS, LENGTH, Parameters, bad, need, rows_of
from hermes_lab.chats.telegram.calling import Calling, Method
from hermes_lab.chats.telegram.world import ADMIN, LEFT, MEMBER, PRIVATE, BotAccount

MOST_COMMANDS = 100
_COMMAND = re.compile(r"[a-z0-9_]{1,32}")
#: Scopes of commands, and which chat and person each of them names.
_SCOPES: Mapping[str, tuple[str, ...]] = {
    "default": (),
    "all_private_chats": (),
    "all_group_chats": (),
    "all_chat_administrators": (),
    "chat": ("chat_id",),
    "chat_administrators": ("chat_id",),
    "chat_member": ("chat_id", "user_id"),
}


def get_me(calling: Calling) -> Any:
    return calling.bot.describe_self()


def set_commands(calling: Calling) -> Any:
    calling.need("commands")
    rows = rows_of(calling.parameters.json("commands", list, "commands") or [], "BotCommand")
    if len(rows) > MOST_COMMANDS:
        raise bad("BOT_COMMANDS_TOO_MUCH", LENGTH)
    kept = []
    for row in rows:
        command = need(row, "command", str, "BotCommand").removeprefix("/")
        description = need(row, "description", str, "BotCommand").strip()
        if not _COMMAND.fullmatch(command):
            raise bad("BOT_COMMAND_INVALID", FIELDS)
        if not 1 <= len(description) <= 256:
            raise bad("BOT_COMMAND_DESCRIPTION_INVALID", LENGTH)
        kept.append({"command": command, "description": description})
    calling.bot.commands[_read_scope(calling)] = kept
    return True


def get_commands(calling: Calling) -> Any:
    return calling.bot.commands.get(_read_scope(calling), [])


def delete_commands(calling: Calling) -> Any:
    calling.bot.commands.pop(_read_scope(calling), None)
    return True


def _read_scope(calling: Calling) -> tuple[str, str]:
    scope = calling.parameters.json("scope", dict, "BotCommandScope") or {"type": "default"}
    kind = str(scope.get("type"))
    if kind not in _SCOPES:
        raise bad("can't parse BotCommandScope: unsupported type specified", FIELDS)
    named = []
    for name in _SCOPES[kind]:
        if name not in scope:
            raise bad(f"can't parse BotCommandScope: there is no {name}", FIELDS)
        named.append(str(scope[name]))
    if "chat_id" in scope:
        calling.world.find_chat(calling.bot, str(scope["chat_id"]))
    return ":".join([kind, *named]), calling.parameters.text("language_code")


def find_commands(bot: BotAccount, chat_id: int, person_id: int, language: str = "") -> list[dict[str, str]]:
    """The menu that a person sees in a chat: the narrowest scope wins."""
    wide = ["all_private_chats"] if chat_id > 0 else ["all_group_chats"]
    for scope in (f"chat_member:{chat_id}:{person_id}", f"chat:{chat_id}", *wide, "default"):
        for tongue in (language, "") if language else ("",):
            if (scope, tongue) in bot.commands:
                return bot.commands[scope, tongue]
    return []


def get_chat(calling: Calling) -> Any:
    calling.need("chat_id")
    chat = calling.find_chat()
    gifts = ("unlimited_gifts", "limited_gifts", "unique_gifts", "premium_subscription", "gifts_from_channels")
    more: dict[str, Any] = {
        "accent_color_id": 0,
        "max_reaction_count": 11,
        "accepted_gift_types": dict.fromkeys(gifts, False),
    }
    if not chat.reactions:
        more["available_reactions"] = []
    if chat.kind != PRIVATE:
        more["permissions"] = {"can_send_messages": not chat.muted}
    return {**calling.world.describe_chat(chat), **more}


def get_member(calling: Calling) -> Any:
    calling.need("chat_id", "user_id")
    chat = calling.find_chat()
    number = calling.parameters.number("user_id")
    if number == calling.bot.id:
        return describe_member(calling.bot.describe(), chat.bots[number])
    person = calling.world.people.get(number)
    if person is None:
        raise bad("PARTICIPANT_ID_INVALID", FIELDS)
    standing = ADMIN if number in chat.admins else MEMBER if number in chat.people else LEFT
    return describe_member(person.describe(), standing)


def describe_member(user: dict[str, Any], standing: str) -> dict[str, Any]:
    described: dict[str, Any] = {"user": user, "status": standing}
    if standing == ADMIN:
        rights = (
            "can_be_edited is_anonymous can_manage_chat can_delete_messages can_manage_video_chats "
            "can_restrict_members can_promote_members can_change_info can_invite_users can_post_stories "
            "can_edit_stories can_delete_stories"
        )
        described |= dict.fromkeys(rights.split(), False)
    if standing == "kicked":
        described["until_date"] = 0
    return described


def read_webhook_url(parameters: Parameters, loopback: bool) -> str:
    """The address of a webhook, if Telegram would go there. `loopback`: this machine may be it, without TLS."""
    url = parameters.text("url")
    found = re.fullmatch(r"(https?)://(\[[^\]]+\]|[^/:?#]+)(?::(\d+))?(?:[/?#].*)?", url)
    if found and loopback and found.group(2) in ("127.0.0.1", "localhost", "[::1]"):
        return url
    if found is None or found.group(1) != "https":
        raise bad("bad webhook: An HTTPS URL must be provided for webhook", FIELDS)
    if int(found.group(3) or 443) not in (443, 80, 88, 8443):
        raise bad("bad webhook: Webhook can be set up only on ports 80, 88, 443 or 8443", FIELDS)
    return url


def read_secret(parameters: Parameters) -> str:
    secret = parameters.text("secret_token")
    if len(secret) > 256:
        raise bad("secret token is too long", FIELDS)
    if not re.fullmatch(r"[A-Za-z0-9_-]*", secret):
        raise bad("secret token contains unallowed characters", FIELDS)
    return secret


METHODS: Mapping[str, Method] = {
    "getMe": get_me,
    "setMyCommands": set_commands,
    "getMyCommands": get_commands,
    "deleteMyCommands": delete_commands,
    "getChat": get_chat,
    "getChatMember": get_member,
}
