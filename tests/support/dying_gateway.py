"""Run as a program: `hermes gateway run` that is killed at the n-th commit after a message with a certain word."""

import os
import signal
import sys
from collections.abc import Callable
from typing import Any, TypeVar

from hermes_cli.main import main
from hermes_state.sql.engines.engine import Transaction
from hermes_state.sql.engines.postgres import PostgresEngine
from hermes_state.sql.engines.sqlite import SqliteEngine
from hermes_state.sql.turns_sql import TurnStore

T = TypeVar("T")


def die_after(commits: int, word: str) -> None:
    left: list[int] = []  # empty until a message comes that was not seen before
    accept = TurnStore.accept

    def count_one() -> None:
        left[0] -= 1
        if left[0] == 0:
            os.kill(os.getpid(), signal.SIGKILL)

    def count_writes(engine: type[Any]) -> None:
        write = engine.write

        def write_and_count(self: Any, work: Callable[[Transaction], T]) -> T:
            result: T = write(self, work)
            if left:
                count_one()
            return result

        engine.write = write_and_count

    def accept_and_begin_to_count(
        self: TurnStore, conversation: str, account: str, ext_id: str, body: str, *more: Any
    ) -> int | None:
        seq = accept(self, conversation, account, ext_id, body, *more)
        if seq is not None and not left and word in body:
            left.append(commits)
            count_one()
        return seq

    for engine in (SqliteEngine, PostgresEngine):
        count_writes(engine)
    TurnStore.accept = accept_and_begin_to_count  # type: ignore[method-assign]


if __name__ == "__main__":
    die_after(int(sys.argv[1]), sys.argv[2])
    sys.exit(main(["gateway", "run", "--anyway"]))
