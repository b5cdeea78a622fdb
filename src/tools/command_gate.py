"""The gate in front of the shell: a command runs when the policy allows it or a person agrees to exactly it."""

from hermes_base.tool_context import ToolContext
from tools.approval import ask_approval
from tools.policy import Verdict, judge


def approve_command(context: ToolContext, command: str) -> str | None:
    """None when the command may run, otherwise the sentence that says why it does not."""
    verdict = _judge(context, command)
    if verdict.decision == "allow":
        return None
    if verdict.decision == "deny":
        return f"The command was not run: {verdict.reason}."
    if ask_approval(context, command, verdict.reason):
        return None
    return f"The command was not run: nobody approved it ({verdict.reason})."


def approve_input(context: ToolContext, command: str, text: str) -> str | None:
    """The same for what is typed into a running process: a program that runs unasked takes input unasked, too."""
    if _judge(context, command).decision == "allow":
        return None
    if ask_approval(context, f"{command}\n<<< {text}", "this is typed into a running program"):
        return None
    return "The input was not sent: nobody approved it."


def _judge(context: ToolContext, command: str) -> Verdict:
    return judge(
        command,
        folder=context.folder,
        roots=tuple(context.added_roots()),
        mode=str(context.setting("approvals", "mode", "ask")),
        home=str(context.home) if context.home else "",
    )
