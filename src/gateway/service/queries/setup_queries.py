"""Settings and providers for the page: what may be changed there, and a probe before anything counts as set up (H5)."""

import logging
from collections.abc import Callable, Mapping, Sequence
from operator import attrgetter
from typing import TypeVar

from agent import choosing, probing
from agent.providers import embedded
from gateway.service.admin import platform_setup
from gateway.turns.run_turn import GatewayParts
from gateway.turns.threads import start_thread
from hermes_base import setting_table as table
from hermes_base.command_table import COMMANDS
from hermes_base.errors import ConfigProblem, StoreFailure
from hermes_base.query_values import ModelView, PlatformView, Probed, ProviderChoice, ProviderView, SettingView
from hermes_cli import config as cli_config
from hermes_cli.plugins import get_plugin_commands

log = logging.getLogger(__name__)

T = TypeVar("T")
#: What a page may change. Never here: secrets; addresses, and whatever else decides where a key is sent; what makes
#: code run (plugins, the sandbox's backend); who can reach the page.
SAFE: tuple[str, ...] = (
    "model.default",
    "model.max_tokens",
    "model.cache_ttl",
    "agent.reasoning_effort",
    "agent.max_iterations",
    "agent.context_files",
    "approvals.mode",
    "terminal.timeout",
    "memory.memory_enabled",
    "compression.enabled",
    "compression.threshold",
    "compression.target_ratio",
    "compression.protect_first_n",
    "compression.protect_last_n",
    "titles.enabled",
    "gateway.busy",
    "gateway.tool_progress",
    "gateway.silence_minutes",
    "gateway.turn_minutes",
    "people.members_approve",
    "web.upload_megabytes",
    "retention.queue_days",
    "retention.session_days",
    "log.level",
    "log.megabytes",
    "log.files",
)
#: What a choice means for whoever makes it, beside what the table says.
_CAREFUL = {
    "approvals.mode": "Careful: with auto the model changes files in its folder and runs programs there without "
    "asking anybody.",
    "people.members_approve": "Careful: members can then let the model run commands on this machine.",
    "retention.session_days": "Careful: what is deleted comes back only from a back-up.",
}


class SetupQueries:
    def __init__(self, parts: GatewayParts) -> None:
        self._parts = parts

    async def settings(self) -> Sequence[SettingView]:
        """Those that are safe to change here."""
        return await self._parts.call(lambda: [view_setting(key) for key in SAFE])

    async def change(self, key: str, text: str) -> SettingView:
        return await self._parts.call(change_setting, key, text)

    def commands(self) -> Sequence[Mapping[str, str]]:
        """What can be typed behind a slash: the built-in commands, then those of plugins."""
        own = [{"name": one.name, "args": one.args, "summary": one.summary} for one in COMMANDS]
        for name, facts in sorted(get_plugin_commands().items()):
            own.append({"name": name, "args": facts["args_hint"], "summary": facts["description"]})
        return own

    async def model(self) -> ModelView:
        return await self._work(self._find_model)

    async def models(self) -> Sequence[str]:
        """Names that a conversation may choose: the default one first, then the fallbacks."""
        return await self._work(self._list_models)

    async def providers(self) -> Sequence[ProviderView]:
        return await self._work(choosing.list_providers)

    async def probe(self, choice: ProviderChoice) -> Probed:
        """Make one small real call; nothing is kept."""
        return await self._work(lambda: self._settle(lambda: probing.probe(choosing.runtime_of_choice(choice))))

    async def use(self, choice: ProviderChoice) -> Probed:
        """Probe, and keep the choice only if the probe went through."""
        return await self._work(lambda: self._settle(lambda: choosing.use_choice(choice)))

    async def platforms(self) -> Sequence[PlatformView]:
        """The chat apps that can be set up, with what is set."""
        return await self._work(platform_setup.list_platforms)

    async def use_platform(self, name: str, answers: Mapping[str, str]) -> Probed:
        """Try a chat app with these answers, and keep them only if it answered."""
        return await self._work(lambda: platform_setup.use_answers(name, answers))

    async def _work(self, work: Callable[[], T]) -> T:
        """On a thread of its own: a slow model server must not keep the store's few threads."""
        return await start_thread(work, "set-up")

    # --- on that thread

    def _settle(self, ask: Callable[[], probing.ProbeResult]) -> Probed:
        """The result as the page is told it; what the call cost is in the ledger."""
        try:
            result = ask()
        except ConfigProblem as problem:
            return Probed(False, str(problem))
        try:
            if result.usage:
                self._parts.meters.charge(self._parts.store, "", result.usage)
        except StoreFailure as problem:  # the answer to the person matters more
            log.warning("a probe could not be put into the ledger: %s", problem)
        return result.probed

    def _find_model(self) -> ModelView:
        try:
            runtime = self._parts.builder.find_runtime(cli_config.load_last_good(), "", "")
        except ConfigProblem as problem:
            return ModelView("", "", "", "", problem=str(problem))
        if runtime.provider == "embedded":
            embedded.start_soon()
        return ModelView(
            runtime.model,
            runtime.provider,
            runtime.label,
            runtime.source,
            built_in=runtime.provider == "embedded",
            window=runtime.context_length,
        )

    def _list_models(self) -> Sequence[str]:
        fallbacks = cli_config.load_last_good().model.fallbacks
        named = (self._find_model().model, *(entry.get("model") or "" for entry in fallbacks))
        return list(dict.fromkeys(name for name in named if name))


def view_setting(key: str) -> SettingView:
    """A setting of the list as it stands; while the file is broken, as it was read last."""
    row = table.find(key)
    assert row is not None
    value = attrgetter(key)(cli_config.load_last_good())
    return SettingView(
        key,
        row.kind,
        value,
        row.default,
        " ".join(part for part in (row.doc, _CAREFUL.get(key, "")) if part),
        row.takes_effect,
        row.choices,
        row.breaks_prefix,
        changed=value != row.default,
    )


def change_setting(key: str, text: str) -> SettingView:
    """Write one setting, comments in the file kept; ConfigProblem when it is not of the list or the value cannot be."""
    if key not in SAFE:
        if table.find(key) is None:
            raise cli_config.unknown_key(key)
        raise ConfigProblem(
            f"{key} cannot be changed from the page.",
            kept="Nothing was changed.",
            fix=f"On the machine: hermes config set {key} VALUE",
        )
    cli_config.set_value(key, text)
    return view_setting(key)
