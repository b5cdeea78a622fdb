"""The web page as a platform. Its server has checked that whoever speaks is the owner of this Hermes."""

from gateway.platforms.face import PlatformSpec

SPEC = PlatformSpec(
    name="web",
    label="The web page",
    factory="gateway.platforms.web.adapter:WebAdapter",
    takes_keys=True,
    has_buttons=True,
    takes_files=True,
    fetches_files=True,
    shows_events=True,
    shows_titles=True,
    burst_seconds=0.05,
    trusted=True,
    joins=True,
    always_on=True,
    takes_edits=False,
    needs_mention=False,
    names_seen=True,
)
