"""`hermes lab`: servers on this machine for tests and for trying: a scripted model, and chat apps that judge."""

import argparse
import importlib
import pkgutil
from pathlib import Path

from hermes_base.errors import ConfigProblem
from hermes_lab import chats, server
from hermes_lab.values import LabProblem


def main(args: list[str]) -> int:
    apps = [module.name for module in pkgutil.iter_modules(chats.__path__) if module.ispkg]  # a folder each
    parser = argparse.ArgumentParser("hermes lab", description="Servers on this machine, for tests and for trying.")
    actions = parser.add_subparsers(dest="action", required=True, metavar="|".join(["serve", *apps]))
    serve = actions.add_parser("serve", help="a scripted model, until Ctrl-C")
    serve.add_argument("--plan", type=Path, metavar="FILE", help="what to answer")
    serve.add_argument("--record", type=Path, metavar="FILE", help="write each request there")
    for action in (
        serve,
        *(actions.add_parser(name, help=f"{name}, judging who calls it, until Ctrl-C") for name in apps),
    ):
        action.add_argument("--port", type=_read_port, default=0, help="0 or left out: a free one, which is printed")
    parsed = parser.parse_args(args)
    try:
        if parsed.action == "serve":
            server.serve("127.0.0.1", parsed.port, parsed.plan, parsed.record)
        else:
            importlib.import_module(f"{chats.__name__}.{parsed.action}.{parsed.action}_lab").serve(parsed.port)
    except LabProblem as problem:
        raise ConfigProblem(str(problem)) from problem
    return 0


def _read_port(text: str) -> int:
    if text.isdecimal() and int(text) <= 65535:
        return int(text)
    raise argparse.ArgumentTypeError(f"{text!r} is not a port: use a number from 0 to 65535")
