"""What takes minutes: thousands of turns with evictions, after which nothing is left over."""

import gc
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from agent.http import transport
from hermes_base.turn.hooks import NoHooks
from hermes_state.sql.store_sql import Store
from hermes_state.store import NewSession
from hermes_state.store_journal import StoreJournal
from run_agent import AIAgent

CONVERSATIONS, TURNS = 200, 10


def memory_kb() -> int:
    status = Path("/proc/self/status").read_text()
    return int(next(line.split()[1] for line in status.splitlines() if line.startswith("VmRSS")))


@pytest.fixture
def address() -> Iterator[str]:
    """The lab server as a process of its own: its memory is not ours."""
    command = [sys.executable, "-m", "hermes_cli.main", "lab", "serve", "--port", "0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as child:
        assert child.stdout is not None
        yield next(word for word in child.stdout.readline().split() if word.startswith("http"))
        child.terminate()


def play_round(address: str, store: Store, name: str) -> None:
    """Every conversation has its turns; each agent is evicted and built anew after a few of them."""
    for conversation in range(CONVERSATIONS):
        for turn in range(TURNS):
            if turn % 4 == 0:
                agent = AIAgent(
                    base_url=address,
                    model="m",
                    api_key="k",
                    hooks=NoHooks(),
                    context_length=8192,
                    max_tokens=256,
                    journal=StoreJournal(lambda: store, NewSession(f"{name}-{conversation}")),
                )
            assert agent.run_conversation(f"turn {turn} " + "word " * 300)["completed"]
            if turn % 4 == 3:
                agent.release_clients()
        agent.close()


@pytest.mark.soak
def test_a_second_round_leaves_nothing_more_behind(address: str, tmp_path: Path) -> None:
    """F1: threads, sockets and descriptors return to the baseline; the second round's memory is the first's."""
    store = Store(tmp_path / "store.db")
    play_round(address, store, "warm-up")
    sizes, descriptors = [], []
    for name in ("first", "second"):
        play_round(address, store, name)
        gc.collect()
        sizes.append(memory_kb())
        descriptors.append(len(os.listdir("/proc/self/fd")))
    store.close()
    assert descriptors[1] <= descriptors[0]
    assert transport.count_pools() == 0
    assert threading.active_count() < 12
    assert sizes[1] < sizes[0] * 1.03, sizes
