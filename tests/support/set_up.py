"""A set-up that asks, answered as a person would: one answer when its question stands there."""

import subprocess
import sys

from gateway_process import GatewayProcess

PATIENCE = 60.0
#: Runs a program in a terminal of its own: what is asked for secretly is asked there and nowhere else.
IN_TERMINAL = [sys.executable, "-c", "import pty, sys; sys.exit(pty.spawn(sys.argv[1:]) >> 8)"]


def answer_questions(gateway: GatewayProcess, command: list[str], answers: list[str]) -> str:
    """Run a command that asks, and give each answer when its question stands there; all that it said."""
    with subprocess.Popen(
        [*IN_TERMINAL, *command], env=gateway.environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as program:
        assert program.stdin is not None
        assert program.stdout is not None
        said = b""
        for answer in answers:
            asked = said.count(b"]: ")
            while said.count(b"]: ") == asked and (sign := program.stdout.read(1)):
                said += sign
            program.stdin.write(f"{answer}\n".encode())
            program.stdin.flush()
        said += program.stdout.read()
        assert program.wait(PATIENCE) == 0, said.decode()
    return said.decode()
