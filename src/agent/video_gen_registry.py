"""The providers that make videos, as plugins registered them."""

from agent.backend_provider import BackendRegistry
from agent.video_gen_provider import VideoGenProvider

registry: BackendRegistry[VideoGenProvider] = BackendRegistry(VideoGenProvider)
register_provider, list_providers, get_provider = (
    registry.register_provider,
    registry.list_providers,
    registry.get_provider,
)
