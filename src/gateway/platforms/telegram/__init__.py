"""Telegram: a bot in private chats, groups and forum topics, by polling or by a webhook."""

from gateway.platforms.face import PlatformSpec, SetupQuestion
from gateway.platforms.id_forms import IdForm

SPEC = PlatformSpec(
    name="telegram",
    label="Telegram",
    factory="gateway.platforms.telegram.adapter:TelegramAdapter",
    person_ids=IdForm(r"-?[0-9]+", "is a number, not a name"),
    chat_ids=IdForm(r"-?[0-9]+", "is a number, as -1001234567890"),
    max_length=4096,
    length_unit="utf16",
    most_parts=8,
    markup="telegram_html",
    can_edit=True,
    has_buttons=True,
    has_typing=True,
    has_receipts=True,
    has_menu=True,
    takes_files=True,
    max_file_bytes=50_000_000,
    calls_per_second=1.0,
    group_calls_per_second=17 / 60,  # with the burst: 20 in any minute
    burst_calls=3,
    edit_seconds=1.5,
    account_calls_per_second=25.0,  # with the burst: 30 in any second
    account_burst_calls=5,
    split_length=4096,
    drops_name=True,
    takes_hooks=True,
    settings={
        "token": "the bot's token; better kept as TELEGRAM_BOT_TOKEN in .env",
        "mode": "how messages come: polling (the default) or webhook",
        "public_url": "for a webhook: the https address under which Telegram reaches this machine",
        "reactions": "false: no 👀 on messages that were taken",
        "base_url": "a Bot API server of your own; without it Telegram's",
    },
    switches=frozenset({"reactions"}),
    setup=(
        SetupQuestion("token", "The bot's token, as @BotFather gave it", env="TELEGRAM_BOT_TOKEN", names_account=True),
        SetupQuestion("owner", "Your numeric Telegram id (empty: you are let in by a code)"),
    ),
    probe="gateway.platforms.telegram.probe:probe",
    extra="telegram",
    needs=("telegram",),
)
