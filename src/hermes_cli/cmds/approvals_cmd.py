"""`hermes approvals`: shows which approvals are kept as rules, and ends them; answers what waits for an approval.

The owner of the home does the work: a running gateway, or this command itself when there is none.
"""

import argparse
from types import MappingProxyType

from hermes_cli.cmds import owner
from hermes_state.approval_store import describe_answered, describe_revoked, describe_rules, describe_waiting


def main(args: list[str]) -> int:
    parser = argparse.ArgumentParser(
        "hermes approvals",
        description="Approvals that were kept, so that Hermes does not ask again, and those that wait.",
    )
    actions = parser.add_subparsers(dest="action", required=True, metavar="list|revoke|waiting|answer")
    listing = actions.add_parser("list", help="the rules that hold: what, where, for whom, until when")
    revoke = actions.add_parser("revoke", help="end a rule: it is asked for again")
    which = revoke.add_mutually_exclusive_group(required=True)
    which.add_argument("id", metavar="ID", nargs="?", help="as `hermes approvals list` shows it")
    which.add_argument("--all", action="store_true", help="every rule of everybody")
    waiting = actions.add_parser("waiting", help="what a turn of somebody asks who may not approve it")
    answer = actions.add_parser("answer", help="answer one of these")
    answer.add_argument("id", metavar="ID", help="as `hermes approvals waiting` shows it")
    answer.add_argument("answer", metavar="ANSWER", help="yes, no, 'no: WORDS', conversation, always")
    for action in (listing, revoke, waiting, answer):
        action.add_argument("--json", action="store_true", help="for programs")
    return owner.run_action("approvals", parser.parse_args(args), _WORDS)


_WORDS: owner.Words = MappingProxyType(
    {
        "list": describe_rules,
        "revoke": describe_revoked,
        "waiting": describe_waiting,
        "answer": describe_answered,
    }
)
