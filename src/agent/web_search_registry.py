"""The providers that search the web, as plugins registered them."""

from agent.backend_provider import BackendRegistry
from agent.web_search_provider import WebSearchProvider

registry: BackendRegistry[WebSearchProvider] = BackendRegistry(WebSearchProvider)
register_provider, list_providers, get_provider = (
    registry.register_provider,
    registry.list_providers,
    registry.get_provider,
)
