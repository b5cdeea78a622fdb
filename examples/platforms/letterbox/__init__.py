"""A platform of two folders: what is put into `in` is answered in `out`. Copy this folder into `src/gateway/platforms/`
and switch it on with `hermes config set platforms.letterbox.enabled true`."""

from gateway.platforms.face import PlatformSpec

SPEC = PlatformSpec(
    name="letterbox",
    label="Letterbox",
    factory="gateway.platforms.letterbox.adapter:LetterboxAdapter",
    markup="plain",
    takes_keys=True,  # a letter that is sent twice is one file
    trusted=True,  # whoever can write into the folder is the owner of the machine
    settings={"folder": "where the two folders are; the home, unless it is said"},
)
