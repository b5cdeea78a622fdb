"""XMPP (Jabber): an account of its own in direct chats and rooms, on any server."""

import unicodedata

from gateway.platforms.face import PlatformSpec, SetupQuestion
from gateway.platforms.id_forms import IdForm

_IS_JID = r"[^\s@/\"&'<>:]+@[^\s@/]+"
_JID_SAYS = "is an XMPP address, like name@example.org"


def fold_address(typed: str) -> str:
    """An address in the form in which servers tell it (RFC 7613: small letters, composed). No other sign is taken for
    another one: that would make one of two accounts."""
    return unicodedata.normalize("NFC", typed.lower())


def _fold_bare(typed: str) -> str:
    """The same, without the client behind it."""
    return fold_address(typed.removeprefix("xmpp:").partition("/")[0])


SPEC = PlatformSpec(
    name="xmpp",
    label="XMPP",
    factory="gateway.platforms.xmpp.adapter:XmppAdapter",
    person_ids=IdForm(_IS_JID, _JID_SAYS, _fold_bare),
    chat_ids=IdForm(_IS_JID, _JID_SAYS, fold_address),
    max_length=5_000,  # servers read some 10,000 bytes a second of a client, and end a line that sends 256 KiB at once
    length_unit="bytes",
    most_parts=8,
    markup="styling",
    can_edit=True,
    takes_keys=True,  # where the server keeps an archive: what stands there is not sent again
    has_typing=True,
    has_receipts=True,
    takes_files=True,
    max_file_bytes=20_000_000,  # until the server says how much it takes
    calls_per_second=1.0,
    burst_calls=5,
    edit_seconds=4.0,  # each edit is a message in the archives of both sides
    account_calls_per_second=5.0,
    account_burst_calls=20,
    has_history=True,
    settings={
        "jid": "the account's address, like hermes@example.org",
        "password": "its password; better kept as XMPP_PASSWORD in .env",
        "server": "host:port, where the name in the address does not lead to the server by itself",
        "tls": "false: nothing is encrypted, for a server on this machine or in its own network",
        "ca_file": "the certificate of your own authority, if the server has none that this machine trusts",
        "resource": "the name of this client within the account; without it hermes",
        "nick": "its name in rooms; without it the part of the address before the @",
        "rooms": "the rooms to be in: one@rooms.example.org, two@rooms.example.org PASSWORD",
        "room_servers": "servers of others whose rooms may say who is who there; your own server's always may",
        "edits": "false: answers come whole, for people whose clients show a correction as a new message",
    },
    switches=frozenset({"tls", "edits"}),
    setup=(
        SetupQuestion(
            "jid", "The XMPP address of Hermes' own account", pattern=_IS_JID, says=_JID_SAYS, names_account=True
        ),
        SetupQuestion("password", "Its password", env="XMPP_PASSWORD"),
        SetupQuestion(
            "server",
            "The server as host:port (empty: as the address says)",
            pattern=r"[^\s:/]+(:[0-9]+)?|\[[0-9A-Fa-f:]+\](:[0-9]+)?",
            says="is no name of a server: write it like xmpp.example.org or xmpp.example.org:5222",
        ),
        SetupQuestion("rooms", "Rooms to be in, with commas between them (empty: none)"),
        SetupQuestion("owner", "Your own XMPP address (empty: you are let in by a code)"),
    ),
    probe="gateway.platforms.xmpp.probe:probe",
    extra="xmpp",
    needs=("slixmpp",),
)
