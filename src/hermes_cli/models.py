"""The providers in the order in which people are offered them, as plugins read them: a view of what there is now."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import providers
from agent.providers.table import list_known


class ProviderEntry(NamedTuple):
    slug: str
    label: str
    tui_desc: str


class CanonicalProvidersView(Sequence[ProviderEntry]):
    """Those of plugins stand behind ours as soon as they are loaded, which looking into it does."""

    def __getitem__(self, place: Any) -> Any:
        return _list()[place]

    def __len__(self) -> int:
        return len(_list())


def _list() -> list[ProviderEntry]:
    providers.load_plugins()
    return [
        ProviderEntry(facts.name, facts.label, (facts.profile.description if facts.profile else "") or facts.label)
        for facts in list_known().values()
    ]


CANONICAL_PROVIDERS: Sequence[ProviderEntry] = CanonicalProvidersView()
