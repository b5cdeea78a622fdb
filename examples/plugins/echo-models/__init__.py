"""A provider of models: where it is, how its key is called, and what its requests need. It is registered at import.

`hermes config set model.provider echo` chooses it (or `echo-models`, its alias); `ECHO_MODELS_BASE_URL` is another
address for it.
"""

from providers import register_provider
from providers.base import ProviderProfile


class EchoProfile(ProviderProfile):
    """What this server wants otherwise than others; a provider that wants nothing needs no class."""

    def build_extra_body(self, *, session_id=None, **context):
        return {"user": session_id or "nobody"}

    def build_api_kwargs_extras(self, *, reasoning_config=None, **context):
        effort = (reasoning_config or {}).get("effort")
        return {}, {"reasoning_effort": effort} if effort else {}


register_provider(
    EchoProfile(
        name="echo",
        aliases=("echo-models",),
        display_name="Echo",
        description="a server on this machine",
        base_url="http://127.0.0.1:7788/v1",
        env_vars=("ECHO_MODELS_API_KEY", "ECHO_MODELS_BASE_URL"),
        fallback_models=("echo-1",),
        default_headers={"X-Asked-By": "hermes"},
        fixed_temperature=0.2,
        default_max_tokens=512,
    )
)
