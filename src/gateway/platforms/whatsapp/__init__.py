"""WhatsApp: a business number of your own through the Cloud API, with messages that come to a webhook."""

import re

from gateway.platforms.face import PlatformSpec, SetupQuestion
from gateway.platforms.id_forms import IdForm


def _write_number(typed: str) -> str:
    """A telephone number as WhatsApp writes it; an id that is none stays as it is."""
    digits = re.sub(r"[\s().-]", "", typed).removeprefix("+")
    return digits.removeprefix("00") if digits.isdecimal() else typed


SPEC = PlatformSpec(
    name="whatsapp",
    label="WhatsApp",
    factory="gateway.platforms.whatsapp.adapter:WhatsAppAdapter",
    person_ids=IdForm(
        r"[1-9][0-9]{4,}|[A-Z]{2}\.\S+", "has the country's code and digits only, as 4915112345678", _write_number
    ),
    chat_ids=IdForm(bring=_write_number),
    max_length=4096,
    length_unit="utf16",  # the documents say characters, and this is never more than they may mean
    most_parts=8,
    markup="whatsapp",
    has_buttons=True,
    has_typing=True,
    has_receipts=True,
    takes_files=True,
    max_file_bytes=100_000_000,
    calls_per_second=1 / 6,  # to one person, who may be sent 45 at once on account of the time to come
    burst_calls=40,
    reserved_calls=20,
    account_calls_per_second=70.0,  # with the burst: 80 in any second
    account_burst_calls=10,
    takes_hooks=True,
    max_hook_bytes=3_145_728,
    settings={
        "phone_number_id": "the id of your number at WhatsApp (not the number itself)",
        "token": "the access token; better kept as WHATSAPP_TOKEN in .env",
        "app_secret": "the app's secret, which signs what WhatsApp sends; better kept as WHATSAPP_APP_SECRET in .env",
        "verify_token": "the word that WhatsApp shows at the set-up; better kept as WHATSAPP_VERIFY_TOKEN in .env",
        "base_url": "another server that speaks the Cloud API; without it Meta's",
        "version": "the version of the API that is asked for",
    },
    setup=(
        SetupQuestion(
            "phone_number_id",
            "The phone number ID, as the page `API Setup` of your app shows it",
            pattern=r"[0-9]+",
            says="is the id beside your number, digits only, and not the number",
            names_account=True,
        ),
        SetupQuestion("token", "The access token of a system user", env="WHATSAPP_TOKEN"),
        SetupQuestion("app_secret", "The app secret, from `App settings`, `Basic`", env="WHATSAPP_APP_SECRET"),
        SetupQuestion(
            "verify_token", "A word of your own, which you enter as `Verify token`, too", env="WHATSAPP_VERIFY_TOKEN"
        ),
        SetupQuestion(
            "owner", "Your own number on WhatsApp, with the country's code (empty: you are let in by a code)"
        ),
    ),
    probe="gateway.platforms.whatsapp.probe:probe",
)
