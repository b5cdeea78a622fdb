"""The gate in front of the shell: a command runs when the policy allows it or a person agrees to exactly it."""

from hermes_base.tool_context import ToolContext
from tools.approval import ask_approval
from tools.policy import judge


def approve_command(context: ToolContext, command: str) -> str | None:
    """None when the command may run, otherwise the sentence that says why it does not."""
    mode = str(context.setting("approvals", "mode", "ask"))
    home = str(context.home) if context.home else ""
    verdict = judge(command, folder=context.folder, mode=mode, home=home)
    if verdict.decision == "allow":
        return None
    if verdict.decision == "deny":
        return f"The command was not run: {verdict.reason}."
    if ask_approval(context, command, verdict.reason):
        return None
    return f"The command was not run: nobody approved it ({verdict.reason})."
