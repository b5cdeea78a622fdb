"""The providers that lend a browser, as plugins registered them."""

from agent.backend_provider import BackendRegistry
from agent.browser_provider import BrowserProvider

registry: BackendRegistry[BrowserProvider] = BackendRegistry(BrowserProvider)
register_provider, list_providers, get_provider = (
    registry.register_provider,
    registry.list_providers,
    registry.get_provider,
)
