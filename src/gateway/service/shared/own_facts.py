"""What this gateway can do, found anew when its settings or keys change, and told to the others; what it lacks is said
once in the log (I4)."""

import hashlib
import json
import logging
import math
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from operator import attrgetter
from typing import Any

from agent import auxiliary_client
from agent.providers.key_names import find_key_names
from agent.providers.runtime import NOTHING_ELSE, Runtime, find_key, lacks_key, runtime_of_entry
from agent.providers.table import list_known
from gateway.core.shared.node_facts import AS_NAMED, BY_ANOTHER, BY_NOBODY, LACKS_KEY, NodeFacts
from gateway.platforms.face import Adapter
from gateway.platforms.platform_list import all_specs
from gateway.turns.threads import StoreFace, start_thread
from hermes_base import setting_table as table
from hermes_base.errors import ConfigProblem, HermesError
from hermes_base.setting_owners import is_of_place
from hermes_base.settings import Settings
from hermes_cli import config as cli_config
from hermes_cli.plugins import plugin_seals
from hermes_cli.plugins.plugin_sources import find_manifests
from hermes_state.sql.turns_sql import TurnStore
from hermes_state.turns import NodeAbout

log = logging.getLogger(__name__)

AGAIN_SECONDS = 60.0  # what runs on the machine, such as a model server, is nobody's edit
HASH_LENGTH = 12
OWN_NAMES = "HERMES_"  # variables of the machine: its store's password, its page's


class OwnFacts:
    """On the event loop, but for `collect`."""

    def __init__(
        self,
        turns: TurnStore,
        call: StoreFace,
        adapters: list[Adapter],
        find_node: Callable[[], str],
        find_unlike: Callable[[], str],
    ) -> None:
        """`find_unlike` says why this gateway has other settings than the others."""
        self._turns = turns
        self._call = call
        self._adapters = adapters
        self._find_node = find_node
        self._find_unlike = find_unlike
        self._collected = -math.inf
        self._told = ("", NodeAbout())  # which node, and what of it
        self.facts = NodeFacts()

    @property
    def about(self) -> NodeAbout:
        facts = self.facts
        return NodeAbout(facts.serves, f" {' '.join(facts.providers)} ", facts.write())

    def note_change(self) -> None:
        """The settings or a key are others: what follows from them is found with the next look."""
        self._collected = -math.inf

    def collect(self) -> None:
        """On a thread of its own: local model servers may be asked."""
        before, self._collected = self.facts, time.monotonic()
        self.facts = collect_facts(cli_config.load_last_good(), self._list_accounts(), self._find_problem())
        if self.facts.lacks and (self.facts.lacks, self.facts.serves) != (before.lacks, before.serves):
            word = LACKS_KEY.get(self.facts.serves, "{who} lacks {keys}, which the model or a fallback needs.")
            log.warning("%s", word.format(who="This gateway", keys=", ".join(self.facts.lacks)))

    def _list_accounts(self) -> tuple[str, ...]:
        chats = (one for one in self._adapters if not one.spec.always_on)
        return tuple(sorted(f"{one.spec.name}:{one.account}" for one in chats))

    def _find_problem(self) -> str:
        return find_problem() or self._find_unlike()

    async def look(self) -> None:
        """Tell the others what has changed."""
        is_old = time.monotonic() - self._collected >= AGAIN_SECONDS
        if is_old or self.facts.platforms != self._list_accounts() or self.facts.problem != self._find_problem():
            await start_thread(self.collect, "facts")
        telling = self._find_node(), self.about
        if telling != self._told:
            await self._call(self._turns.describe_node, *telling)
            self._told = telling


def find_problem() -> str:
    """What is wrong with the settings as they stand; empty: nothing."""
    try:
        cli_config.load_settings()
    except ConfigProblem as problem:
        return cli_config.redactor()(problem.what)
    return ""


def collect_facts(settings: Settings, accounts: tuple[str, ...], problem: str) -> NodeFacts:
    env = auxiliary_client.environment()
    chain, first = list(_list_chain(settings, env)), None
    with suppress(ConfigProblem):
        first = auxiliary_client.find_runtime(settings)
    every = (one for one in (first, *chain) if one is not None)
    lacking = [one for one in every if lacks_key(one) or (one.key_env and not one.api_key)]
    is_named = first is not None and first not in lacking and first.source != NOTHING_ELSE
    others = (first is not None and first.source == NOTHING_ELSE) or any(one not in lacking for one in chain)
    specs, known = [spec for spec in all_specs() if not spec.always_on], find_key_names(settings)
    names = {name for name in env if name in known or any(spec.asks_for(name) for spec in specs)}
    names |= {name for name in cli_config.load_env() if not name.startswith(OWN_NAMES)}
    there = {manifest.key for manifest in find_manifests()} if settings.plugins.enabled else set()
    return NodeFacts(
        serves=AS_NAMED if is_named else BY_ANOTHER if others else BY_NOBODY,
        providers=tuple(sorted(facts.name for facts in list_known().values() if find_key(facts, env))),
        model=f"{first.model} ({first.label})" if first is not None else "nobody",
        lacks=tuple(dict.fromkeys(one.key_env or one.facts.key_env[0] for one in lacking)),
        keys=tuple(sorted(name for name in names if env.get(name, "").strip())),
        settings=dict(_hash_settings(settings)),
        plugins={name: plugin_seals.name_code(name) if name in there else "" for name in settings.plugins.enabled},
        platforms=accounts,
        problem=problem,
    )


def _list_chain(settings: Settings, env: Mapping[str, str]) -> Iterator[Runtime]:
    for entry in settings.model.fallbacks:
        with suppress(HermesError):  # who is named wrong is told where the chain is used
            yield runtime_of_entry(entry, env)


def _hash_settings(settings: Settings) -> Iterator[tuple[str, str]]:
    """What is not the default and is no matter of the place, without secrets."""
    redact = cli_config.redactor()
    for row in table.SETTINGS:
        value = attrgetter(row.key)(settings)
        given = list(value) if isinstance(value, tuple) else value
        if given != row.default and not is_of_place(row.key) and not row.key.startswith("plugins."):
            yield row.key, _hash(redact(_write(given)))
    for section in ("platforms", "mcp_servers", "auxiliary"):
        for name, inner in getattr(settings, section).items():
            own = {key: value for key, value in table.walk(inner) if not table.is_secret(f"{section}.{name}.{key}")}
            yield f"{section}.{name}", _hash(redact(_write(own)))


def _write(value: Any) -> str:
    return json.dumps(value, sort_keys=True, ensure_ascii=False, default=str)


def _hash(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "replace")).hexdigest()[:HASH_LENGTH]
