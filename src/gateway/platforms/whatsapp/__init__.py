"""WhatsApp: a business number of your own through the Cloud API, with messages that come to a webhook."""

from gateway.platforms.face import PlatformSpec, SetupQuestion

SPEC = PlatformSpec(
    name="whatsapp",
    label="WhatsApp",
    factory="gateway.platforms.whatsapp.adapter:WhatsAppAdapter",
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
            "owner",
            "Your own number on WhatsApp, with the country's code (empty: you are let in by a code)",
            pattern=r"[0-9]+",
            says="has digits only, as 4915112345678: leave it empty, and you are let in by a code",
        ),
    ),
    probe="gateway.platforms.whatsapp.probe:probe",
)
