"""Webhooks: each account is a hook, which some program calls with JSON and which answers to an address of its own."""

from gateway.platforms.face import PlatformSpec, SetupQuestion
from gateway.platforms.signing import FORMS, OWN

MEMBER, OWNER = "member", "owner"

SPEC = PlatformSpec(
    name="webhook",
    label="Webhook",
    factory="gateway.platforms.webhook.adapter:WebhookAdapter",
    takes_keys=True,
    takes_files=True,
    max_file_bytes=5_000_000,
    burst_seconds=0.0,  # each request is a message of its own
    needs_mention=False,
    is_program=True,
    takes_hooks=True,
    settings={
        "account": "the name of the hook, where there is one only: it is asked at /hooks/webhook/NAME",
        "secret": "what requests are signed with; better kept as HERMES_WEBHOOK_SECRET in .env",
        "old_secret": "one that is still taken while another takes its place",
        "signature": f"how they are signed: {', '.join(FORMS)}",
        "signature_header": "the header of the signature, where the service has one of its own",
        "role": "as whom the hook speaks: member (with a memory of its own) or owner",
        "text": "what makes the message: a pointer into the JSON, a list of them, or a section of labels with pointers",
        "conversation": "one: all is one conversation; else a pointer to what names it",
        "id": "what is the same when a request comes again: a pointer or a header",
        "events": "what is taken: pointers or headers, each with the value that it has to have, or a list of them",
        "reply_url": "where answers are sent; without it they stay in the conversation",
    },
    reply_setting="reply_url",
    setup=(
        SetupQuestion(
            "account",
            "A name for the hook; it is asked at /hooks/webhook/NAME",
            default="webhook",
            pattern=r"[A-Za-z0-9_.-]{1,64}",
            says="has 1 to 64 letters, digits, `.`, `-` or `_`",
        ),
        SetupQuestion(
            "secret", "The secret that requests are signed with, 16 signs or more", env="HERMES_WEBHOOK_SECRET"
        ),
        SetupQuestion("signature", "How the service signs", default=OWN, choices=tuple(FORMS)),
        SetupQuestion("role", "As whom it speaks", default=MEMBER, choices=(MEMBER, OWNER)),
        SetupQuestion("reply_url", "The address that answers are sent to (empty: they stay in the conversation)"),
    ),
    probe="gateway.platforms.webhook.hook_settings:describe_hook",
)
