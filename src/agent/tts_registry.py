"""The providers that speak, as plugins registered them."""

from agent.backend_provider import BackendRegistry
from agent.tts_provider import TTSProvider

registry: BackendRegistry[TTSProvider] = BackendRegistry(TTSProvider)
register_provider, list_providers, get_provider = (
    registry.register_provider,
    registry.list_providers,
    registry.get_provider,
)
