"""A chat platform in memory, for tests and demos: it behaves, and misbehaves, as it is told."""

from gateway.platforms.face import PlatformSpec

SPEC = PlatformSpec(
    name="pretend",
    label="Pretend",
    factory="gateway.platforms.pretend.adapter:PretendAdapter",
    max_length=4096,
    can_edit=True,
    takes_keys=True,
    has_buttons=True,
    has_typing=True,
    takes_files=True,
    edit_seconds=0.05,
    burst_seconds=0.05,
    album_seconds=0.3,
    settings={"service": "the service to talk to, an object; without one the account has a service of its own"},
)
