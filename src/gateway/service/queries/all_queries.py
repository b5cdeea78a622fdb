"""What the page and the API ask of the gateway, in one object, with a part for each kind of question.

All calls are made on the gateway's event loop. A caller sees what belongs to them and nothing else; the page and the
owner's keys are the owner. What is refused is a HermesError with a sentence.
"""

from typing import TYPE_CHECKING

from gateway.service.queries.gateway_queries import GatewayQueries
from gateway.service.queries.key_queries import KeyQueries
from gateway.service.queries.setup_queries import SetupQueries
from gateway.service.queries.thread_queries import ThreadQueries
from gateway.service.queries.turns_under_way import TurnQueries

if TYPE_CHECKING:
    from gateway.service.gateway import Gateway


class Queries:
    def __init__(self, gateway: "Gateway") -> None:
        self.version = gateway.version
        self.profile = gateway.profile
        self.threads = ThreadQueries(gateway)
        self.turns = TurnQueries(gateway, self.threads)
        self.gateway = GatewayQueries(gateway)
        self.operations = gateway.operations
        self.setup = SetupQueries(gateway)
        self.keys = KeyQueries(gateway)
