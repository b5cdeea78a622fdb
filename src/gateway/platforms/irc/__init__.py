"""IRC: a nick of its own in channels and direct chats, on any network whose services say who is logged in."""

from gateway.platforms.face import PlatformSpec, SetupQuestion
from gateway.platforms.id_forms import IdForm, lower_ascii

SPEC = PlatformSpec(
    name="irc",
    label="IRC",
    factory="gateway.platforms.irc.adapter:IrcAdapter",
    person_ids=IdForm(r"[^\s,]+", "is one word: the account that NickServ knows somebody by", lower_ascii),
    chat_ids=IdForm(r"[^\s,]+", "is one word: a channel like #ops", lower_ascii),
    max_length=400,
    length_unit="bytes",
    one_line=True,
    markup="irc",
    # Servers count the lines of a connection, whoever they go to; the pace stands in the settings.
    account_calls_per_second=0.45,
    account_burst_calls=4,
    burst_seconds=1.0,
    split_length=400,
    has_history=True,
    forgets=True,
    settings={
        "server": "the server's name, with a port if it is not 6697: irc.example.org:6697",
        "tls": "false: nothing is encrypted, for a server on this machine",
        "ca_file": "the certificate of your own authority, if the server has none that this machine trusts",
        "nick": "the nick; without it hermes",
        "login": "the services account to log in as; without it the nick",
        "password": "the account's password; better kept as IRC_PASSWORD in .env",
        "cert_file": "a certificate with its key (PEM) to log in with, in place of a password",
        "channels": "the channels to be in: #one, #two KEY",
        "line_seconds": "seconds for a line, once a few have gone out; without it 2, which every network allows",
    },
    switches=frozenset({"tls"}),
    setup=(
        SetupQuestion(
            "server",
            "The server, with its port if it is not 6697 (irc.libera.chat)",
            pattern=r"[^\s:/]+(:[0-9]+)?|\[[0-9A-Fa-f:]+\](:[0-9]+)?",
            says="is no name of a server: write it like irc.example.org or irc.example.org:6697",
        ),
        SetupQuestion(
            "nick",
            "The nick",
            default="hermes",
            pattern=r"[A-Za-z\[\]\\`_^{|}][A-Za-z0-9\[\]\\`_^{|}-]*",
            says="is no nick: it begins with a letter, and has no spaces",
        ),
        SetupQuestion("password", "The password of its account with NickServ (empty: it has none)", env="IRC_PASSWORD"),
        SetupQuestion("channels", "Channels to join, with commas between them (empty: none)"),
        SetupQuestion("owner", "Your own services account, as NickServ calls it (empty: you are let in by a code)"),
    ),
    probe="gateway.platforms.irc.probe:probe",
)
