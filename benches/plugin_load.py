"""What plugins that do nothing add to a turn: fifty of them, each with every hook."""

from pathlib import Path

from benches.measure import Figure, cpu_ms
from hermes_cli.plugins import VALID_HOOKS, PluginContext, PluginHooks, PluginManager, PluginManifest
from hermes_state.sql.store_sql import Store
from hermes_state.store import NewSession
from hermes_state.store_journal import StoreJournal
from run_agent import AIAgent

PLUGINS = 50
ROUNDS = 3


def load_idle_plugins(count: int) -> PluginManager:
    manager = PluginManager()
    for number in range(count):
        ctx = PluginContext(PluginManifest(f"idle-{number}"), manager)
        for hook in VALID_HOOKS:
            ctx.register_hook(hook, lambda **facts: None)
    return manager


def measure_plugins(base_url: str, folder: Path) -> list[Figure]:
    """The least difference of some rounds: noise of the machine only ever adds."""
    turns = []
    for count in (0, PLUGINS):
        store = Store(folder / f"plugins-{count}.db")
        agent = AIAgent(
            base_url=base_url,
            model="bench",
            api_key="bench-key",
            hooks=PluginHooks(load_idle_plugins(count)),
            journal=StoreJournal(lambda store=store: store, NewSession("bench")),  # type: ignore[misc]
            enabled_toolsets=["hermes-cli"],
        )
        turn = lambda agent=agent: agent.run_conversation("[[chunks 40]]")  # noqa: E731
        for _ in range(5):
            turn()
        turns.append(turn)
    added = min(cpu_ms(turns[1], 30) - cpu_ms(turns[0], 30) for _ in range(ROUNDS))
    return [Figure("50 idle plugins with every hook, added to a turn, CPU", max(0.0, added), "ms", 1.0, 9.7)]
