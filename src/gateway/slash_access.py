"""Who may use which slash command, as a section of a platform says it in the form of plugins."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

ALWAYS = frozenset({"help", "start", "stop", "status"})
_DM, _GROUP = "dm", "group"


@dataclass(frozen=True)
class SlashAccessPolicy:
    """Not `enabled`: everybody who may speak may use every command."""

    enabled: bool = False
    admin_user_ids: frozenset[str] = frozenset()
    user_allowed_commands: frozenset[str] = frozenset()

    def is_admin(self, user_id: str | None) -> bool:
        return not self.enabled or str(user_id or "") in self.admin_user_ids

    def can_run(self, user_id: str | None, command: str) -> bool:
        name = command.strip().removeprefix("/").lower()
        return self.is_admin(user_id) or name in self.user_allowed_commands or name in ALWAYS


def policy_from_extra(extra: Mapping[str, Any] | None, scope: str = _DM) -> SlashAccessPolicy:
    """What `extra` says for direct chats (`dm`) or for groups (`group`)."""
    given = extra or {}
    prefix = "group_" if scope == _GROUP else ""
    admins = _read_names(given.get(f"{prefix}allow_admin_from"))
    allowed = {name.removeprefix("/").lower() for name in _read_names(given.get(f"{prefix}user_allowed_commands"))}
    return SlashAccessPolicy(bool(admins), frozenset(admins), frozenset(allowed))


def _read_names(value: Any) -> list[str]:
    every = value.split(",") if isinstance(value, str) else value if isinstance(value, list | tuple | set) else ()
    return [str(name).strip() for name in every if str(name).strip()]
