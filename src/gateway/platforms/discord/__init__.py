"""Discord: a bot in direct messages, channels of servers and threads."""

from gateway.platforms.face import PlatformSpec, SetupQuestion
from gateway.platforms.id_forms import IdForm

SPEC = PlatformSpec(
    name="discord",
    label="Discord",
    factory="gateway.platforms.discord.adapter:DiscordAdapter",
    person_ids=IdForm(r"[0-9]+", "is a number, not a name"),
    chat_ids=IdForm(r"[0-9]+", "is a number: the id of a channel"),
    max_length=2000,
    length_unit="utf16",
    most_parts=8,
    markup="discord",
    can_edit=True,
    takes_keys=True,
    has_buttons=True,
    has_typing=True,
    has_receipts=True,
    has_menu=True,
    takes_files=True,
    max_file_bytes=10 * 1024 * 1024,
    calls_per_second=1.0,  # Discord counts each kind of call for itself, and tells what is left
    burst_calls=4,
    edit_seconds=1.2,
    account_calls_per_second=25.0,  # with the burst and what is read: fewer than 50 in any second
    account_burst_calls=5,
    has_history=True,
    settings={
        "token": "the bot's token; better kept as DISCORD_BOT_TOKEN in .env",
        "message_content": "false: the bot does without the message content intent, and reads what names it",
        "reactions": "false: no 👀 on messages that were taken",
        "base_url": "a server of your own in place of Discord's API; without it Discord's",
    },
    switches=frozenset({"message_content", "reactions"}),
    setup=(
        SetupQuestion(
            "token",
            "The bot's token, from its page in the developer portal",
            env="DISCORD_BOT_TOKEN",
            names_account=True,
        ),
        SetupQuestion("owner", "Your Discord user id (empty: you are let in by a code)"),
    ),
    probe="gateway.platforms.discord.probe:probe",
    extra="discord",
    needs=("discord",),
)
