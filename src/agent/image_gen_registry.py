"""The providers that make images, as plugins registered them."""

from agent.backend_provider import BackendRegistry
from agent.image_gen_provider import ImageGenProvider

registry: BackendRegistry[ImageGenProvider] = BackendRegistry(ImageGenProvider)
register_provider, list_providers, get_provider = (
    registry.register_provider,
    registry.list_providers,
    registry.get_provider,
)
