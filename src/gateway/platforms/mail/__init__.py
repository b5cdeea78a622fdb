"""E-mail: a mailbox of its own, read by IMAP and answered by SMTP. Each thread is a conversation."""

from gateway.platforms.face import PlatformSpec, SetupQuestion
from gateway.platforms.id_forms import IdForm, lower_ascii

SPEC = PlatformSpec(
    name="mail",
    label="E-mail",
    factory="gateway.platforms.mail.adapter:MailAdapter",
    person_ids=IdForm(r"[^\s@<>,;]+@[^\s@<>,;]+", "is an address like ann@example.org", lower_ascii),
    chat_ids=IdForm(bring=lower_ascii),
    markup="html",
    takes_files=True,
    max_file_bytes=18_000_000,  # a quarter less than the 25 MB that most servers take: files grow on their way
    calls_per_second=1.0,
    burst_calls=5,
    account_calls_per_second=2.0,
    account_burst_calls=10,
    burst_seconds=0.0,  # two mails are two messages
    names_seen=True,  # a reply says which mail it replies to, and that mail which question it asks
    settings={
        "address": "the address of the mailbox, which it answers from",
        "password": "the mailbox's password; better kept as MAIL_PASSWORD in .env",
        "user": "the name to log in with; without it the address",
        "imap": "where mail is read: imaps://host (TLS) or imap://host (STARTTLS), with :port if it is another",
        "smtp": "where mail is sent: smtps://host (TLS) or smtp://host (STARTTLS), with :port if it is another",
        "authserv_id": "the name under which the mailbox's own server writes Authentication-Results",
        "ca_file": "certificates of a private authority, as a PEM file",
        "mailbox": "the folder that is read; without it INBOX",
        "name": "the name that people see beside the address; without it Hermes",
    },
    setup=(
        SetupQuestion(
            "address",
            "The address of its own mailbox",
            pattern=r"[^\s@<>,;]+@[^\s@<>,;]+\.[^\s@<>,;]+",
            says="is an address like hermes@example.org",
            names_account=True,
        ),
        SetupQuestion("password", "The mailbox's password (an app password where there are such)", env="MAIL_PASSWORD"),
        SetupQuestion("imap", "The IMAP server, such as imaps://imap.example.org"),
        SetupQuestion("smtp", "The SMTP server, such as smtps://smtp.example.org"),
        SetupQuestion(
            "authserv_id",
            "The name with which that server begins Authentication-Results (empty: the newest mails are looked at)",
        ),
        SetupQuestion("owner", "Your own address (empty: you are let in by a code)"),
    ),
    probe="gateway.platforms.mail.probe:probe",
)
