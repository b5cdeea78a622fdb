"""The API as a platform. Its server has checked the key, so the sender is a person known here."""

from gateway.platforms.face import PlatformSpec

SPEC = PlatformSpec(
    name="api",
    label="The API",
    factory="gateway.platforms.api.adapter:ApiAdapter",
    takes_keys=True,
    takes_files=True,
    fetches_files=True,
    shows_events=True,
    burst_seconds=-1.0,  # two requests are two turns, even when they come in the same instant
    knows_people=True,
    joins=True,
    always_on=True,
    takes_edits=False,
    needs_mention=False,
    awaits_each=True,
    names_seen=True,
)
