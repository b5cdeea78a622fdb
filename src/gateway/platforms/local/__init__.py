"""The local platform: JSON lines over a Unix socket in the home. Whoever can connect is the owner of the machine."""

from dataclasses import replace

from gateway.platforms.face import PlatformSpec

SPEC = PlatformSpec(
    name="local",
    label="The local socket",
    factory="gateway.platforms.local.adapter:LocalAdapter",
    takes_keys=True,
    has_buttons=True,
    takes_files=True,
    shows_events=True,
    burst_seconds=0.05,  # what is pasted at once is one message; whoever types does not notice the wait
    trusted=True,
    joins=True,
    always_on=True,
    needs_mention=False,
    names_seen=True,
    settings={"idempotent": "false: clients get no keys, and a repeated message is shown again, with a mark"},
)
#: The same for clients that cannot tell a repetition.
LOCAL_PLAIN = replace(SPEC, takes_keys=False)
