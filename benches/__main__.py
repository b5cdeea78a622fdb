"""Prints what hermes costs beside its limits; exits 1 when one is passed.

`--profile` prints where the time of one turn goes instead.
"""

import contextlib
import cProfile
import os
import pstats
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from benches.measure import Figure, child_cpu_ms, count_calls, cpu_ms, kept_kb
from hermes_base.hooks import NoHooks
from hermes_state.journal import StoreJournal
from hermes_state.sqlite import SqliteStore
from run_agent import AIAgent

HERMES = str(Path(sys.executable).with_name("hermes"))


@contextlib.contextmanager
def lab_server() -> Iterator[str]:
    """The lab server as a process of its own, so that its work is not counted as ours."""
    child = subprocess.Popen([HERMES, "lab", "serve", "--port", "0"], stdout=subprocess.PIPE, text=True)
    try:
        assert child.stdout is not None
        yield next(word for word in child.stdout.readline().split() if word.startswith("http"))
    finally:
        child.terminate()
        child.wait()


def make_agent(base_url: str = "https://openrouter.ai/api/v1", **options: object) -> AIAgent:
    agent = AIAgent(base_url=base_url, model="bench", api_key="bench-key", hooks=NoHooks(), **options)  # type: ignore[arg-type]
    agent.ensure_client()
    return agent


def measure_agents() -> list[Figure]:
    for _ in range(20):
        make_agent()
    return [
        Figure("build an agent (steady), CPU", cpu_ms(make_agent, 500), "ms", 1.0),
        Figure("build an agent (steady), memory", kept_kb(make_agent, 200), "KB", 40.0),
    ]


def talking_agent(base_url: str, folder: Path, history: int) -> AIAgent:
    """An agent in the middle of a stored conversation of `history` messages."""
    store = SqliteStore(folder / f"{history}.db")
    agent = make_agent(base_url, journal=StoreJournal(lambda: store, "bench"), enabled_toolsets=["hermes-cli"])
    spoken = [
        {"role": role, "content": f"{role} {n} " + "some words " * 15}
        for n in range(history // 2)
        for role in ("user", "assistant")
    ]
    agent.run_conversation("[[chunks 40]]", conversation_history=spoken or None)
    for _ in range(5):
        agent.run_conversation("[[chunks 40]]")
    return agent


def measure_turns(base_url: str, folder: Path) -> list[Figure]:
    figures = []
    for history, cpu_limit, call_limit in ((0, 6.0, 12_000), (500, 10.0, 12_000)):
        agent = talking_agent(base_url, folder, history)
        turn = lambda agent=agent: agent.run_conversation("[[chunks 40]]")  # noqa: E731
        figures.append(
            Figure(f"a turn of 40 chunks, {history} messages before, CPU", cpu_ms(turn, 30), "ms", cpu_limit)
        )
        figures.append(
            Figure(f"a turn of 40 chunks, {history} messages before, calls", count_calls(turn), "", call_limit)
        )
    return figures


def measure_commands() -> list[Figure]:
    return [Figure("hermes --version, CPU", child_cpu_ms([HERMES, "--version"], 11), "ms", 80.0)]


def show_profile(base_url: str, folder: Path) -> None:
    agent = talking_agent(base_url, folder, 500)
    profile = cProfile.Profile()
    profile.runcall(agent.run_conversation, "[[chunks 40]]")
    pstats.Stats(profile).sort_stats("cumulative").print_stats(40)


def main() -> int:
    with tempfile.TemporaryDirectory() as folder, lab_server() as base_url:
        os.environ["HERMES_HOME"] = folder
        if "--profile" in sys.argv:
            show_profile(base_url, Path(folder))
            return 0
        figures = [*measure_agents(), *measure_turns(base_url, Path(folder)), *measure_commands()]
    for figure in figures:
        mark = "ok" if figure.holds else "OVER"
        print(f"{figure.name:52} {figure.value:10,.2f} {figure.unit:3} limit {figure.limit:8,.0f}  {mark}")
    return 0 if all(figure.holds for figure in figures) else 1


if __name__ == "__main__":
    sys.exit(main())
