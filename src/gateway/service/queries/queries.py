"""The house as the page and the API see it: one object with a desk for each kind of question."""

from typing import TYPE_CHECKING

from gateway.service.queries.house_queries import HouseDesk
from gateway.service.queries.key_queries import Keys
from gateway.service.queries.setup_queries import Setup
from gateway.service.queries.thread_queries import ThreadDesk
from gateway.service.queries.turn_queries import TurnDesk
from hermes_base.query_values import Cockpit, Desk, HousePanel, KeyDesk, SetupDesk, Threads

if TYPE_CHECKING:
    from gateway.service.gateway import Gateway


class GatewayCockpit:
    """Implements `Cockpit`."""

    def __init__(self, gateway: "Gateway") -> None:
        self.version = gateway.version
        self.profile = gateway.profile
        threads = ThreadDesk(gateway)
        self.threads: Threads = threads
        self.desk: Desk = TurnDesk(gateway, threads)
        self.house: HousePanel = HouseDesk(gateway)
        self.setup: SetupDesk = Setup(gateway)
        self.keys: KeyDesk = Keys(gateway)


def make_cockpit(gateway: "Gateway") -> Cockpit:
    return GatewayCockpit(gateway)
