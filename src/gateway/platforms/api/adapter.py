"""The API's account: clients watch the conversations that they speak in."""

from gateway.platforms.api import SPEC
from gateway.platforms.hub import HubAdapter


class ApiAdapter(HubAdapter):
    spec = SPEC
