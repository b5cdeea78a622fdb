"""Settings and providers for the page: what may be changed there, and a probe before anything counts as set up (H5)."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from hermes_base.cockpit import ModelView, Probed, ProviderChoice, ProviderView, SettingView
from hermes_base.errors import HermesError

if TYPE_CHECKING:
    from gateway.service import Gateway


class Setup:
    """Implements `SetupDesk`."""

    def __init__(self, gateway: "Gateway") -> None:
        self._gateway = gateway

    async def settings(self) -> Sequence[SettingView]:
        return []

    async def change(self, key: str, text: str) -> SettingView:
        raise HermesError("Not there yet.")

    async def model(self) -> ModelView:
        return ModelView("", "", "", "")

    async def models(self) -> Sequence[str]:
        return []

    async def providers(self) -> Sequence[ProviderView]:
        return []

    async def probe(self, choice: ProviderChoice) -> Probed:
        raise HermesError("Not there yet.")

    async def use(self, choice: ProviderChoice) -> Probed:
        raise HermesError("Not there yet.")
