"""What the walls cost: a command in the sandbox beside the same command without one, wall time, taken in turns."""

import statistics
import time
from pathlib import Path

from benches.measure import Figure
from hermes_base.setting_table import make_settings
from hermes_base.turn.tool_context import ToolContext
from tools.shell.sandbox import Walls, is_bubblewrap_usable
from tools.shell.shell_state import ShellState
from tools.shell.shells import ShellStart
from tools.terminal_tool import cleanup_vm, run_start

TIMES = 60
SECRETS = 10


def measure_walls(folder: Path) -> list[Figure]:
    """Ten files with secrets in the working folder, so ten masks."""
    if not is_bubblewrap_usable():
        return []
    work = folder / "walled"
    work.mkdir()
    for at in range(SECRETS):
        (work / f"{at}.env").write_text("x")
    places = {"local": _context("local", work), "bubblewrap": _context("bubblewrap", work)}
    spent: dict[str, list[float]] = {name: [] for name in places}
    for _ in range(TIMES):
        for name, context in places.items():  # in turns, so that a slow moment meets both
            start = ShellStart("true", ShellState(str(work)), Walls.LOOK)
            began = time.perf_counter()
            run_start(start, context, 60.0, pty=False)
            spent[name].append(time.perf_counter() - began)
    for context in places.values():
        cleanup_vm(context.task)
    more = 1000 * (statistics.median(spent["bubblewrap"]) - statistics.median(spent["local"]))
    return [Figure("a command in look, 10 hidden files, over none, wall", more, "ms", 9.0)]


def _context(backend: str, work: Path) -> ToolContext:
    return ToolContext(
        task=f"bench-{backend}", folder=str(work), settings=make_settings({"terminal": {"backend": backend}})
    )
