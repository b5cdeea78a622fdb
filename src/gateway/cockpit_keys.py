"""Whose an API key is."""

from typing import TYPE_CHECKING

from hermes_base.cockpit import Caller

if TYPE_CHECKING:
    from gateway.service import Gateway


class Keys:
    """Implements `KeyDesk`."""

    def __init__(self, gateway: "Gateway") -> None:
        self._gateway = gateway

    async def check(self, secret: str) -> Caller | None:
        del secret
        return None
