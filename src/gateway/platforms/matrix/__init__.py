"""Matrix: an account of its own in rooms, direct chats and threads, by long polls of its homeserver."""

from gateway.platforms.face import PlatformSpec, SetupQuestion
from gateway.platforms.id_forms import IdForm, lower_ascii

_IS_ID = r"@[^\s:]+:\S+"
_ID_SAYS = "is a Matrix id, like @name:example.org"


def _fold_server(id: str) -> str:
    """The server's name in small letters. What stands before it is compared as it is: old servers may have two accounts
    that differ in a capital."""
    name, colon, server = id.partition(":")
    return f"{name}{colon}{lower_ascii(server)}"


SPEC = PlatformSpec(
    name="matrix",
    label="Matrix",
    factory="gateway.platforms.matrix.adapter:MatrixAdapter",
    person_ids=IdForm(r"@[^\sA-Z:]+:\S+", "is a Matrix id in small letters, like @name:example.org", _fold_server),
    chat_ids=IdForm(r"!\S+", "is the id of a room, which begins with an exclamation mark"),
    max_length=12_000,
    length_unit="bytes",  # an event has 65,536 of them, and an edit says its text three times
    most_parts=8,
    markup="html",
    can_edit=True,
    takes_keys=True,
    has_typing=True,
    has_receipts=True,
    takes_files=True,
    max_file_bytes=50_000_000,  # until the homeserver says how much it takes
    calls_per_second=1.0,
    burst_calls=5,
    edit_seconds=3.0,  # homeservers count edits as messages, and Synapse takes ten at once and one in five seconds
    has_history=True,
    answers_invitations=True,
    settings={
        "homeserver": "the homeserver: its name (example.org) or its address (https://matrix.example.org)",
        "user": "the account's Matrix id, like @hermes:example.org",
        "password": "its password; better kept as MATRIX_PASSWORD in .env",
        "token": "an access token in place of the password; better kept as MATRIX_ACCESS_TOKEN in .env",
    },
    setup=(
        SetupQuestion("homeserver", "The homeserver: its name, or its https address", default="matrix.org"),
        SetupQuestion(
            "user", "The Matrix id of Hermes' own account", pattern=_IS_ID, says=_ID_SAYS, names_account=True
        ),
        SetupQuestion("password", "Its password (empty: an access token is asked for next)", env="MATRIX_PASSWORD"),
        SetupQuestion("token", "An access token in its place (empty: none)", env="MATRIX_ACCESS_TOKEN"),
        SetupQuestion("owner", "Your own Matrix id: invitations are accepted from you"),
    ),
    probe="gateway.platforms.matrix.probe:probe",
    extra="matrix",
    needs=("nio",),
)
