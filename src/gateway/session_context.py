"""Where the turn of this thread was asked, for plugins that want to know: the interface they are written against."""

import os

from hermes_base.conversation_key import parse_key
from hermes_base.inbound import Inbound
from hermes_base.plugin_words import name_platform
from hermes_base.turn.turn_context import current_turn

_PREFIX = "HERMES_SESSION_"
PLATFORM, SOURCE, CHAT, CHAT_NAME, THREAD, USER, USER_NAME, KEY, ID, MESSAGE, PROFILE = (
    _PREFIX + name
    for name in (
        *("PLATFORM", "SOURCE", "CHAT_ID", "CHAT_NAME", "THREAD_ID", "USER_ID", "USER_NAME", "KEY", "ID"),
        *("MESSAGE_ID", "PROFILE"),
    )
)


def get_session_env(name: str, default: str = "") -> str:
    """One of the names above, for the turn under way; outside of turns, and for other names, the environment's."""
    turn = current_turn.get()
    if turn is not None:
        known = {KEY: turn.conversation, ID: turn.session, PROFILE: _find_profile(turn.conversation)}
        if turn.asked is not None:
            known |= describe_session(turn.asked)
        if name in known:
            return known[name] or default
    return os.environ.get(name, default)


def describe_session(asked: Inbound) -> dict[str, str]:
    """What `get_session_env` answers in a turn that was asked by this message."""
    address, platform = asked.address, name_platform(asked.address.platform)
    where = {PLATFORM: platform, SOURCE: platform, CHAT: address.chat, CHAT_NAME: "", THREAD: address.thread}
    return {**where, USER: asked.sender, USER_NAME: asked.sender_name, MESSAGE: asked.message}


def _find_profile(conversation: str) -> str:
    return parse_key(conversation).profile if conversation.startswith("agent:") else ""
