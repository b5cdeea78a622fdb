"""Asking a person before something is done: bound to the exact words, valid once, with an expiry.

Where it can be said exactly what is done (a `Deed`), whoever keeps rules may answer by one that a person made (G4).
Below stands what plugins call: buttons of their own adapters, and a consent that one of them asks for.
"""

import json
import logging
from collections.abc import Callable
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from hermes_base.chat import Question
from hermes_base.house_opening import TOOLS, open_house
from hermes_base.text.harmless import show_blanks, show_hidden
from hermes_base.turn.consent import ALWAYS, APPROVE, CONVERSATION, DENY, ONCE, TABLE, Deed, split_answer
from hermes_base.turn.hooks import find_hooks
from hermes_base.turn.plugin_asks import APPROVAL, AskQueues, open_asks
from hermes_base.turn.tool_context import ToolContext
from hermes_base.turn.turn_context import current_turn
from hermes_cli import config as cli_config

log = logging.getLogger(__name__)

EXPIRES_SECONDS = 300.0
LONGEST_SHOWN = 500  # characters of a deed in a list
NOBODY = "nobody approved it"
NO_ANSWER = "nobody approved it (there was no answer, and that means no)"
REFUSED = "nobody approved it: the answer was no"
HOOKS = ("pre_approval_request", "post_approval_response")
LOCAL = ":local:"  # in the keys of conversations in the terminal
#: What plugins call the answers.
CHOICES = MappingProxyType({APPROVE: "once", CONVERSATION: "session", ALWAYS: "always"})


@dataclass(frozen=True, slots=True)
class Consent:
    """Whether a person agreed; if not, `why` says it to the model, in the person's own words where they gave some."""

    given: bool
    why: str = ""

    def __bool__(self) -> bool:
        return self.given


def ask_approval(
    context: ToolContext, what: str, reason: str = "", kind: str = "approval", deed: Deed | None = None
) -> Consent:
    """Given only when somebody was there, answered in time, and agreed to exactly this, now or by a rule.

    An approval is given by those who may approve commands, a `confirmation` by the person of the turn.
    """
    if context.asker is None or context.settings.approvals.mode == "deny" or context.cancel.cancelled:
        return Consent(False, NOBODY)
    foreign = f"this conversation holds {' and '.join(context.foreign.origins)}" if context.foreign else ""
    question = Question(
        kind,
        show_blanks(show_hidden(what)),
        ONCE,
        EXPIRES_SECONDS,
        reason,
        context.conversation,
        context.turn,
        deed=deed,
        unkept=foreign,
        origins=context.foreign.origins,
    )
    hooks = find_hooks()
    about = _describe(context, what, reason or kind, deed) if any(map(hooks.has, HOOKS)) else {}
    hooks.invoke(HOOKS[0], **about)
    answer = context.asker(question)
    choice, word = split_answer(answer.text)
    hooks.invoke(HOOKS[1], **about, choice=_name_choice(answer.given, choice))
    agreed = answer.given and choice in TABLE and choice != DENY and not context.cancel.cancelled
    by = f"{answer.rule} ({answer.by})" if answer.rule else answer.by or "nobody"
    log.info("%s by %s: %s", "approved" if agreed else "not approved", by, context.redact(what))
    if agreed:
        return Consent(True)
    if not answer.given:
        return Consent(False, NO_ANSWER)
    return Consent(False, f"not approved: {context.redact(word)}" if word else REFUSED)


def _describe(context: ToolContext, what: str, why: str, deed: Deed | None) -> dict[str, Any]:
    """What plugins are told of a question. What may be done is decided by parsed commands, not by patterns: the kind
    of the deed stands for one."""
    pattern = deed.kind if deed is not None else "approval"
    return {
        "command": context.redact(what),
        "description": why,
        "pattern_key": pattern,
        "pattern_keys": [pattern],
        "session_key": context.conversation,
        "surface": "cli" if LOCAL in context.conversation or not context.conversation else "gateway",
        "turn_id": context.told_turn,
        "tool_call_id": context.call,
    }


def _name_choice(given: bool, choice: str) -> str:
    return CHOICES.get(choice, "deny") if given else "timeout"


def make_deed(context: ToolContext, kind: str, folder: str, words: Any, shown: str, **reach: str) -> Deed | None:
    """What is about to be done, so that a rule can be held against it; None where a rule would have to keep a secret,
    or what cannot be written down."""
    said = " ".join(shown.split())
    written = json.dumps(words)
    shown = said if len(said) <= LONGEST_SHOWN else said[: LONGEST_SHOWN - 1] + "…"
    whole = f"{folder} {said} {written}"
    if not whole.isprintable() or context.redact(whole) != whole:
        return None
    return Deed(kind, folder, reach.get("backend", ""), reach.get("level", ""), written, shown, context.task)


# --- what plugins call

#: Approvals that stand in a chat with buttons of an adapter of a plugin: by conversation, the oldest first.
_gateway_queues = AskQueues(open_asks, APPROVAL)
_ANSWERS = {"once": APPROVE, "session": CONVERSATION, "always": ALWAYS, "deny": DENY}
#: Places for commands, as plugins call them, that are not this machine.
CONTAINERS = frozenset({"docker", "singularity", "modal", "daytona", "vercel_sandbox"})
#: What the policy says of a command that a plugin runs by itself, and why; set by `tools.policy.command_gate`.
judge_foreign: Callable[[str], tuple[str, str]] | None = None
#: How they call what `approvals.mode` says here.
_MODES = {"ask": "manual", "auto": "smart", "deny": "manual"}


def resolve_gateway_approval(
    session_key: str, choice: str, resolve_all: bool = False, reason: str | None = None
) -> int:
    """A button was pressed: once, session, always or deny. The oldest approval of the conversation is answered, or all
    of them; how many were. From any thread. Who pressed it is whose direct chat it is: buttons are shown nowhere else
    (G4)."""
    answer = _ANSWERS.get(choice)
    if answer is None:
        return 0
    waiting = open_asks.of_session(session_key, APPROVAL)
    chosen = waiting if resolve_all else waiting[:1]
    settled = sum(open_asks.answer(ask.id, answer, reason or "") for ask in chosen)
    if settled and not resolve_all:
        return settled
    return settled + len(_gateway_queues.take_own(session_key, every=resolve_all))


def get_current_session_key(default: str = "default") -> str:
    """The conversation of the turn that this thread works for."""
    turn = current_turn.get()
    return turn.conversation if turn is not None and turn.conversation else default


def request_tool_approval(
    tool_name: str, reason: str, *, rule_key: str = "", approval_callback: Callable[..., Any] | None = None
) -> dict[str, Any]:
    """Ask the person of the turn, and wait; where nobody can be asked the answer is no."""
    text = f"{tool_name}: {reason}" if reason else tool_name
    return _ask_for_plugin(text, rule_key, approval_callback)


def check_dangerous_command(
    command: str,
    env_type: str,
    approval_callback: Callable[..., Any] | None = None,
    has_host_access: bool = False,
) -> dict[str, Any]:
    """The same about a command that a plugin wants to run, if our policy asks about it: what only looks is approved at
    once, also what stays in a container, and what is denied is not asked. It is judged as one without a sandbox."""
    if env_type in CONTAINERS and not has_host_access:
        return {"approved": True, "message": None}
    if judge_foreign is None:  # somebody imported this alone
        open_house(TOOLS)
    decision, why = judge_foreign(command) if judge_foreign is not None else ("ask", "")
    if decision == "allow":
        return {"approved": True, "message": None}
    if decision == "deny":
        return {"approved": False, "message": f"the command is not allowed: {why}"}
    reason = "; ".join(part for part in (why, f"a plugin wants to run it ({env_type})") if part)
    return _ask_for_plugin(command, reason, approval_callback)


def _get_approval_mode() -> str:
    return _MODES.get(cli_config.load_last_good().approvals.mode, "manual")


def _ask_for_plugin(text: str, reason: str, callback: Callable[..., Any] | None) -> dict[str, Any]:
    turn = current_turn.get()
    if callback is not None:
        agreed = _ask_callback(callback, text, reason)
        return {"approved": agreed, "message": None if agreed else REFUSED}
    if turn is None or turn.asker is None or cli_config.load_last_good().approvals.mode == "deny":
        return {"approved": False, "message": NOBODY}
    question = Question(
        APPROVAL, show_blanks(show_hidden(text)), ONCE, EXPIRES_SECONDS, reason, turn.conversation, turn.turn
    )
    answer = turn.asker(question)
    choice, word = split_answer(answer.text)
    agreed = answer.given and choice == APPROVE and not turn.cancel.cancelled
    return {"approved": agreed, "message": None if agreed else word or NO_ANSWER if not answer.given else REFUSED}


def _ask_callback(callback: Callable[..., Any], text: str, reason: str) -> bool:
    """By a plugin's own question; one that breaks off means no."""
    try:
        return callback(text, reason) in ("once", "session", "always", True)
    except Exception:
        log.exception("a plugin's own question about %s failed", text)
        return False
