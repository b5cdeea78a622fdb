"""Sends a message to a person or chat that the person of the turn may address; to others with their consent (G9)."""

from collections.abc import Mapping
from typing import Any

from hermes_base.errors import ToolFailure
from hermes_base.inbound import FileRef
from hermes_base.turn.messaging import MessageTarget
from hermes_base.turn.tool_context import ToolContext
from tools.approval import ask_approval
from tools.builtin.send_file_tool import read_for_sending
from tools.registry import make_schema, registry, tool_result

TOOLSET = "messages"
TEXT_CHARS = 20_000

SCHEMA = make_schema(
    "send_message",
    "Send a message to another chat: 'home', a person or a chat of the list. In this chat, just answer.",
    (),
    action={"type": "string", "enum": ["send", "list"]},
    to={"type": "string"},
    message={"type": "string"},
    file={"type": "string", "description": "Path of a file to send along."},
)


def send_message(args: Mapping[str, Any], *, context: ToolContext) -> str:
    """Send it, or list where one can be sent."""
    messenger = context.messenger
    if messenger is None:
        raise ToolFailure("No message can be sent from here: no gateway with a chat app runs.")
    if args.get("action") == "list":
        return tool_result(targets=[_show(target) for target in messenger.targets()])
    text = context.redact(str(args.get("message") or "").strip())
    path = args.get("file")
    if not text and not path:
        raise ToolFailure("There is nothing to send: give a message, a file, or both.")
    if len(text) > TEXT_CHARS:
        raise ToolFailure(f"A message has at most {TEXT_CHARS:,} characters; this one has {len(text):,}.")
    to = args.get("to")
    if not isinstance(to, str) or not to.strip():
        raise ToolFailure("Say to whom: home, or one of the targets that action 'list' shows.")
    target = messenger.find(to.strip())
    file = read_for_sending(context, path) if path else None
    said = messenger.compose(target, text, context.foreign.origins)
    _require_consent(context, target, said, file)
    sent = messenger.send(target, said, file, context.foreign.origins, context.cancel)
    status = "delivered" if sent.delivered else "stored, not delivered yet"
    return tool_result(
        status=status, to=target.name, where=target.where, **({"note": sent.detail} if sent.detail else {})
    )


def _require_consent(
    context: ToolContext, target: MessageTarget, said: str, file: tuple[FileRef, bytes] | None
) -> None:
    """What others read leaves the conversation with the consent of the person whose turn it is, for exactly this."""
    is_private = target.own and target.address.kind == "dm" and not (context.foreign and target.is_read_by_others)
    if target.here or is_private:
        return
    is_one = target.person and target.address.kind == "dm"
    whom = f"{target.person} ({target.label})" if is_one else f"the {target.address.kind}"
    along = f"\n\nWith the file {file[0].path} ({file[0].size:,} bytes)." if file else ""
    what = f"Send a message to {whom}, in {target.where}:\n\n{said}{along}"
    reason = f"this conversation holds {' and '.join(context.foreign.origins)}" if context.foreign else ""
    if not ask_approval(context, what, reason, "confirmation"):
        raise ToolFailure("The person did not agree to this message, so it was not sent.")


def _show(target: MessageTarget) -> dict[str, Any]:
    shown = {"to": target.name, "who": target.label, "where": target.where, "kind": target.address.kind}
    asks = not target.own or target.address.kind != "dm"
    return {**shown, **({"this_chat": True} if target.here else {}), **({"asks_first": True} if asks else {})}


registry.register("send_message", TOOLSET, SCHEMA, send_message, emoji="✉️")
