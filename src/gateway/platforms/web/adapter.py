"""The web page's account: pages watch the conversations that they show."""

from gateway.platforms.hub import PicturedAdapter
from gateway.platforms.web import SPEC


class WebAdapter(PicturedAdapter):
    spec = SPEC
