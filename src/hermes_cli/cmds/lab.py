"""`hermes lab`: servers on this machine for tests and for trying: a scripted model, and Telegram."""

import argparse
from pathlib import Path

from hermes_base.errors import ConfigProblem
from hermes_lab import server
from hermes_lab.chats.telegram import telegram_lab
from hermes_lab.values import LabProblem


def main(args: list[str]) -> int:
    parser = argparse.ArgumentParser("hermes lab", description="Servers on this machine, for tests and for trying.")
    actions = parser.add_subparsers(dest="action", required=True, metavar="serve|telegram")
    serve = actions.add_parser("serve", help="a scripted model, until Ctrl-C")
    serve.add_argument("--port", type=_read_port, default=0, help="0 or left out: a free one, which is printed")
    serve.add_argument("--plan", type=Path, metavar="FILE", help="what to answer")
    serve.add_argument("--record", type=Path, metavar="FILE", help="write each request there")
    telegram = actions.add_parser("telegram", help="a Telegram that judges who calls it, until Ctrl-C")
    telegram.add_argument("--port", type=_read_port, default=0, help="0 or left out: a free one, which is printed")
    parsed = parser.parse_args(args)
    try:
        if parsed.action == "telegram":
            telegram_lab.serve_telegram(parsed.port)
        else:
            server.serve("127.0.0.1", parsed.port, parsed.plan, parsed.record)
    except LabProblem as problem:
        raise ConfigProblem(str(problem)) from problem
    return 0


def _read_port(text: str) -> int:
    if text.isdecimal() and int(text) <= 65535:
        return int(text)
    raise argparse.ArgumentTypeError(f"{text!r} is not a port: use a number from 0 to 65535")
