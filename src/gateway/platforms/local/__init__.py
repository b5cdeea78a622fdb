"""The terminals of this machine. They speak over a socket in the home; whoever can open it is the owner."""

from gateway.platforms.face import PlatformSpec

SPEC = PlatformSpec(
    name="local",
    label="The local socket",
    factory="gateway.platforms.local.adapter:LocalAdapter",
    takes_keys=True,
    has_buttons=True,
    takes_files=True,
    shows_events=True,
    confirms=True,
    burst_seconds=0.05,  # what is pasted at once is one message; whoever types does not notice the wait
    trusted=True,
    joins=True,
    always_on=True,
    takes_edits=False,
    needs_mention=False,
    names_seen=True,
)
