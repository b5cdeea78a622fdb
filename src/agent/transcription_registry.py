"""The providers that write recordings down, as plugins registered them."""

from agent.backend_provider import BackendRegistry
from agent.transcription_provider import TranscriptionProvider

registry: BackendRegistry[TranscriptionProvider] = BackendRegistry(TranscriptionProvider)
register_provider, list_providers, get_provider = (
    registry.register_provider,
    registry.list_providers,
    registry.get_provider,
)
