"""Slack: an app of one's own in direct messages, channels and threads, by Socket Mode or by signed requests."""

from gateway.platforms.face import PlatformSpec, SetupQuestion
from gateway.platforms.id_forms import IdForm

SPEC = PlatformSpec(
    name="slack",
    label="Slack",
    factory="gateway.platforms.slack.adapter:SlackAdapter",
    person_ids=IdForm(r"([A-Z0-9]+/)?[UW][A-Z0-9]+", "is an id like U012AB3CD, not a name", str.upper),
    chat_ids=IdForm(r"[CDG][A-Z0-9]+", "is an id like C012AB3CD, not a name", str.upper),
    max_length=4000,
    most_parts=8,
    markup="slack",
    can_edit=True,
    takes_keys=True,  # each message carries its key, and what is in doubt is read back
    has_buttons=True,
    has_receipts=True,
    has_menu=True,
    takes_files=True,
    max_file_bytes=1_000_000_000,
    calls_per_second=0.8,  # with the burst: about one a second
    burst_calls=3,
    edit_seconds=1.5,
    account_calls_per_second=10.0,
    account_burst_calls=20,
    has_history=True,
    takes_hooks=True,
    settings={
        "token": "the bot's token, xoxb-…; better kept as SLACK_BOT_TOKEN in .env",
        "app_token": "for Socket Mode, xapp-…; better kept as SLACK_APP_TOKEN in .env",
        "signing_secret": "for mode http; better kept as SLACK_SIGNING_SECRET in .env",
        "mode": "how messages come: socket (the default) or http",
        "reactions": "false: no 👀 on messages that were taken",
        "answer_in_threads": "false: what is said in a channel is answered there and not in a thread",
        "base_url": "the address of the Web API; without it Slack's",
    },
    switches=frozenset({"reactions", "answer_in_threads"}),
    setup=(
        SetupQuestion(
            "mode",
            "How messages come: socket needs no public address, http does",
            default="socket",
            choices=("socket", "http"),
        ),
        SetupQuestion(
            "token",
            "The bot's token (xoxb-…), from OAuth & Permissions",
            env="SLACK_BOT_TOKEN",
            names_account=True,
        ),
        SetupQuestion(
            "app_token",
            "The app's token for Socket Mode (xapp-…), from Basic Information; empty for http",
            env="SLACK_APP_TOKEN",
        ),
        SetupQuestion(
            "signing_secret",
            "The signing secret, from Basic Information; only for http",
            env="SLACK_SIGNING_SECRET",
        ),
        SetupQuestion("owner", "Your member id, like U012AB3CD (empty: you are let in by a code)"),
    ),
    probe="gateway.platforms.slack.probe:probe",
    extra="slack",
    needs=("slack_sdk", "aiohttp"),
)
