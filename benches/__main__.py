"""Prints what hermes costs beside its limits and keeps the result in docs/bench.md; exits 1 when a limit is passed.

`--profile` prints where the time of one turn goes instead.
"""

import cProfile
import os
import platform
import pstats
import sys
import tempfile
import time
from pathlib import Path

from scripts import message_cost

from benches.chat_apps import measure_chat_apps, measure_three_apps
from benches.gateway_load import lab_server, measure_gateway
from benches.hands import measure_hands
from benches.measure import Figure, child_cpu_ms, count_calls, cpu_ms, kept_kb, show
from benches.nodes_load import measure_nodes
from benches.plugin_load import measure_plugins
from benches.stops import measure_stops
from benches.walls import measure_walls
from benches.web_load import measure_web
from hermes_base.turn.hooks import NoHooks
from hermes_state.sql.store_sql import Store
from hermes_state.store import NewSession
from hermes_state.store_journal import StoreJournal
from run_agent import AIAgent
from tools.registry import registry

HERMES = str(Path(sys.executable).with_name("hermes"))


def make_agent(base_url: str = "https://openrouter.ai/api/v1", **options: object) -> AIAgent:
    agent = AIAgent(base_url=base_url, model="bench", api_key="bench-key", hooks=NoHooks(), **options)  # type: ignore[arg-type]
    agent.ensure_client()
    return agent


def measure_agents() -> list[Figure]:
    for _ in range(20):
        make_agent()
    return [
        Figure("build an agent (steady), CPU", cpu_ms(make_agent, 500), "ms", 1.0, 188),
        Figure("build an agent (steady), memory", kept_kb(make_agent, 200), "KB", 40.0, 857),
    ]


def talking_agent(base_url: str, folder: Path, history: int) -> AIAgent:
    """An agent in the middle of a stored conversation of `history` messages."""
    store = Store(folder / f"{history}.db")
    agent = make_agent(
        base_url, journal=StoreJournal(lambda: store, NewSession("bench")), enabled_toolsets=["hermes-cli"]
    )
    spoken = [
        {"role": role, "content": f"{role} {n} " + "some words " * 15}
        for n in range(history // 2)
        for role in ("user", "assistant")
    ]
    agent.run_conversation("[[chunks 40]]", conversation_history=spoken or None)
    for _ in range(5):
        agent.run_conversation("[[chunks 40]]")
    return agent


CHUNKS = 40


def measure_turns(base_url: str, folder: Path) -> list[Figure]:
    """A turn with a streamed answer of 40 pieces, at the start of a conversation and far into it."""
    figures = []
    calls_at_start = 0
    for history, cpu_limit, elsewhere in ((0, 6.0, (56, 62_000)), (500, 10.0, (194, 784_000))):
        agent = talking_agent(base_url, folder, history)
        turn = lambda agent=agent: agent.run_conversation(f"[[chunks {CHUNKS}]]")  # noqa: E731
        calls = count_calls(turn)
        calls_at_start = calls_at_start or calls
        call_limit = 6_000 + 20 * CHUNKS if not history else calls_at_start + 6_000
        name = f"a turn with {history} messages before it"
        figures.append(Figure(f"{name}, CPU", cpu_ms(turn, 30), "ms", cpu_limit, elsewhere[0]))
        figures.append(Figure(f"{name}, function calls", calls, "", call_limit, elsewhere[1]))
    return figures


def measure_parallel_tools(base_url: str) -> list[Figure]:
    """Eight calls that each take half a second, in one round."""
    schema = {"description": "sleep", "parameters": {"type": "object", "properties": {}}}
    registry.register("doze", "bench", schema, lambda args: str(time.sleep(0.5)))
    agent = make_agent(base_url, enabled_toolsets=["bench"])
    agent.run_conversation("hi")
    start = time.monotonic()
    agent.run_conversation("".join(f'[[tool doze {{"n": {n}}}]]' for n in range(8)))
    seconds = time.monotonic() - start
    registry.deregister("doze")
    return [Figure("8 parallel tool calls of 0.5 s, wall", seconds, "s", 0.8, 14.2)]


def measure_message() -> list[Figure]:
    """What one message without tools costs a gateway that twenty clients talk to."""
    cost = message_cost.measure()
    return [Figure("a message through the gateway, 20 clients: calls", cost.calls, "", 6_500)]


def measure_commands() -> list[Figure]:
    return [Figure("hermes --version, CPU", child_cpu_ms([HERMES, "--version"], 11), "ms", 80.0, 645)]


def show_profile(base_url: str, folder: Path) -> None:
    agent = talking_agent(base_url, folder, 500)
    profile = cProfile.Profile()
    profile.runcall(agent.run_conversation, "[[chunks 40]]")
    pstats.Stats(profile).sort_stats("cumulative").print_stats(40)


def write_page(figures: list[Figure]) -> None:
    rows = ["| | elsewhere | limit | here |", "| --- | --- | --- | --- |"]
    for figure in figures:
        cells = (figure.name, show(figure.elsewhere, figure.unit), show(figure.limit, figure.unit), figure.shown)
        rows.append(f"| {' | '.join(cells)} |")
    cores = os.cpu_count()
    PAGE.write_text("\n".join([PAGE_TEXT.format(cores=cores, python=platform.python_version()), *rows, ""]))


PAGE = Path(__file__).parents[1] / "docs" / "bench.md"
PAGE_TEXT = """# What it costs

The last result of `make bench`, on {cores} cores with Python {python}, against the lab server as a process of its own.
CPU times are medians. "Elsewhere" is an earlier measurement of a widely used
agent of this kind; this bench does not repeat it.
`python -m benches --profile` shows where the time of a turn goes.
"""


def main() -> int:
    with tempfile.TemporaryDirectory() as folder, lab_server() as base_url:
        os.environ["HERMES_HOME"] = folder
        if "--profile" in sys.argv:
            show_profile(base_url, Path(folder))
            return 0
        figures = [
            *measure_agents(),
            *measure_turns(base_url, Path(folder)),
            *measure_plugins(base_url, Path(folder)),
            *measure_parallel_tools(base_url),
            *measure_commands(),
            *measure_walls(Path(folder)),
            *measure_hands(base_url),
            *measure_gateway(base_url, Path(folder)),
            *measure_nodes(base_url, Path(folder) / "nodes"),
            *measure_chat_apps(base_url, Path(folder)),
            *measure_three_apps(Path(folder)),
            *measure_message(),
            *measure_stops(base_url, Path(folder)),
            *measure_web(),
        ]
    for figure in figures:
        mark = "ok" if figure.holds else "OVER"
        limit = show(figure.limit, figure.unit)
        print(f"{figure.name:50} {figure.shown:>12}   limit {limit:>10}   {mark}")
    write_page(figures)
    return 0 if all(figure.holds for figure in figures) else 1


if __name__ == "__main__":
    sys.exit(main())
