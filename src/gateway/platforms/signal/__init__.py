"""Signal: an account of its own in direct chats and groups, through signal-cli's daemon."""

from gateway.platforms.face import PlatformSpec, SetupQuestion
from gateway.platforms.id_forms import IdForm, lower_ascii

SPEC = PlatformSpec(
    name="signal",
    label="Signal",
    factory="gateway.platforms.signal.adapter:SignalAdapter",
    person_ids=IdForm(
        r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", "is an id of 36 signs, as 3d8a2c1e-…, and no number", lower_ascii
    ),
    chat_ids=IdForm(r"[0-9A-Za-z+/=_-]+", "is the id of a group, as Signal writes it"),
    max_length=2000,  # of a longer text the daemon makes an attachment
    length_unit="bytes",
    most_parts=8,
    markup="styles",
    can_edit=True,
    has_typing=True,
    has_receipts=True,
    takes_files=True,
    max_file_bytes=14_000_000,  # as a text of the daemon's JSON, which has at most 20,000,000 signs
    # Signal publishes no rates, and asks for a captcha when it finds one too high.
    calls_per_second=1.0,
    burst_calls=5,
    edit_seconds=2.0,
    most_edits=10,
    account_calls_per_second=5.0,
    account_burst_calls=10,
    longest_pause=15.0,  # the daemon is near, and starts when it likes
    forgets=True,
    drops_name=True,
    settings={
        "daemon": "where signal-cli's daemon listens: the path of its UNIX socket, or host:port",
        "number": "the bot's own number on that daemon, as +4915112345678; of an account without one its id",
        "receipts": "false: messages that were taken are not marked as read",
    },
    switches=frozenset({"receipts"}),
    setup=(
        SetupQuestion(
            "daemon",
            "Where signal-cli's daemon listens: the path of its socket, or HOST:PORT",
            pattern=r"[~/].*|[^\s/:]+:[0-9]{1,5}|\[[0-9A-Fa-f:.]+\]:[0-9]{1,5}",
            says="is neither the whole path of a socket, as /run/user/1000/signal-cli/socket, nor HOST:PORT",
        ),
        SetupQuestion(
            "number",
            "The bot's own number, with the country's code (+4915112345678)",
            pattern=r"\+[0-9]{5,15}|[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}",
            says="has a + and the code of the country in front, and digits only",
            names_account=True,
        ),
        SetupQuestion("owner", "The id of your own Signal account (empty: you are let in by a code)"),
    ),
    probe="gateway.platforms.signal.probe:probe",
)
