"""The state of the house for the page: what runs, what it costs, who is there."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from hermes_base.errors import HermesError

if TYPE_CHECKING:
    from gateway.service import Gateway


class HouseDesk:
    """Implements `HousePanel`."""

    def __init__(self, gateway: "Gateway") -> None:
        self._gateway = gateway

    async def status(self) -> Mapping[str, Any]:
        return await self._gateway.operations.status({})

    async def usage(self, days: int) -> Mapping[str, Any]:
        raise HermesError("Not there yet.")

    async def log_tail(self, lines: int) -> Sequence[str]:
        raise HermesError("Not there yet.")

    async def perform(self, name: str, args: Mapping[str, Any]) -> Mapping[str, Any]:
        return await self._gateway.operations.perform(name, args)

    async def metrics(self) -> str:
        raise HermesError("Not there yet.")

    def is_ready(self) -> str:
        return ""
