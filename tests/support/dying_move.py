"""`hermes` in a process that is killed as soon as it has called, or is about to call, a function of ours:
`dying_move.py before|after module:function ARGUMENTS`."""

import importlib
import os
import signal
import sys
from typing import Any

from hermes_cli import main as entry


def die(*_: Any) -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def main(when: str, target: str, *args: str) -> int:
    module_name, _, name = target.partition(":")
    module = importlib.import_module(module_name)
    real = getattr(module, name)

    def call(*given: Any, **named: Any) -> Any:
        if when == "before":
            die()
        result = real(*given, **named)
        die()
        return result

    setattr(module, name, call)
    return entry.main(list(args))


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
