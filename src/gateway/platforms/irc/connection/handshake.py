"""How a connection begins: what the server offers, who we are, and a nick that is free. Pure: lines in, lines out."""

import base64
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from gateway.platforms.face import NotNow
from gateway.platforms.irc.connection.irc_line import IrcLine, write_line
from gateway.platforms.irc.irc_settings import IrcSettings
from gateway.platforms.irc.wire import strip_marks
from hermes_base.errors import ConfigProblem, DeliveryFailure

ACCOUNT_TAG, ECHO, TAGS = "account-tag", "echo-message", "message-tags"
HISTORY = ("draft/chathistory", "chathistory")
_WANTED = (ACCOUNT_TAG, TAGS, ECHO, "server-time", "batch", "account-notify", "extended-join", *HISTORY)
SASL_BYTES = 400  # of one AUTHENTICATE line
NICK_TRIES = 8
SERVICES_SECONDS, BANNED_SECONDS = 60.0, 300.0
NO_ACCOUNTS = (
    "The IRC server does not say which services account a message comes from (account-tag), so nobody could be known."
)
NO_ACCOUNTS_FIX = "Use a server that does: Solanum, InspIRCd, UnrealIRCd and Ergo can."
BAD_LOGIN = "The services of the IRC network do not take the account and its password."
BAD_LOGIN_FIX = "Check platforms.irc.login, and run `hermes setup irc` for the password."
NO_SERVICES = "The IRC network's services are away, so nobody can log in. It is tried again."


@dataclass(slots=True)
class Introduced:
    """What is known of the server and of us when the handshake is over."""

    nick: str = ""
    account: str = ""
    caps: frozenset[str] = frozenset()
    supports: dict[str, str] = field(default_factory=dict)  # ISUPPORT

    @property
    def mapping(self) -> str:
        return self.supports.get("CASEMAPPING", "rfc1459").lower()

    @property
    def history(self) -> bool:
        return TAGS in self.caps and "batch" in self.caps and not self.caps.isdisjoint(HISTORY)


class Handshake:
    """`begin` and `take` give the lines to send. It ends with `done`, or with a failure in a sentence."""

    def __init__(self, settings: IrcSettings) -> None:
        self._settings = settings
        self._offered: dict[str, str] = {}
        self._tries = 0
        self._challenged = False
        self.found = Introduced(nick=settings.nick)
        self.done = False

    def begin(self) -> list[bytes]:
        nick = self._settings.nick
        return [write_line("CAP", "LS", "302"), write_line("NICK", nick), write_line("USER", nick, "0", "*", "Hermes")]

    def take(self, line: IrcLine) -> list[bytes]:
        read = _READERS.get(line.command)
        return read(self, line) if read else []

    # --- what the server offers

    def _take_cap(self, line: IrcLine) -> list[bytes]:
        kind = line.param(1).upper()
        if kind == "LS":
            for word in line.param(-1).split():
                name, _, value = word.partition("=")
                self._offered[name] = value
            return [] if line.param(2) == "*" and len(line.params) > 3 else self._ask()
        if kind == "ACK":
            self.found.caps |= frozenset(line.param(-1).split())
            return self._log_in()
        if kind == "NAK":
            raise DeliveryFailure("The IRC server takes back what it offered.")
        return []

    def _ask(self) -> list[bytes]:
        if ACCOUNT_TAG not in self._offered:
            raise ConfigProblem(NO_ACCOUNTS, fix=NO_ACCOUNTS_FIX)
        wanted = [name for name in _WANTED if name in self._offered]
        if self._settings.logs_in:
            if "sasl" not in self._offered:
                raise NotNow(NO_SERVICES, SERVICES_SECONDS)
            wanted.append("sasl")
        return [write_line("CAP", "REQ", " ".join(wanted))]

    # --- who we are

    def _log_in(self) -> list[bytes]:
        if "sasl" not in self.found.caps:
            return [write_line("CAP", "END")]
        return [write_line("AUTHENTICATE", "EXTERNAL" if self._settings.cert_file else "PLAIN")]

    def _take_challenge(self, line: IrcLine) -> list[bytes]:
        if line.param(0) != "+" or self._challenged:
            return []
        self._challenged = True
        login, password = self._settings.login, self._settings.password
        proof = login.encode() if self._settings.cert_file else f"\0{login}\0{password}".encode()
        return write_proof(proof)

    def _take_login(self, line: IrcLine) -> list[bytes]:
        self.found.account = line.param(2)
        return []

    def _take_success(self, line: IrcLine) -> list[bytes]:
        del line
        return [write_line("CAP", "END")]

    def _take_bad_login(self, line: IrcLine) -> list[bytes]:
        del line
        raise ConfigProblem(BAD_LOGIN, fix=BAD_LOGIN_FIX)

    # --- a nick, and the welcome

    def _take_used_nick(self, line: IrcLine) -> list[bytes]:
        """Somebody has it: another one for now. It is asked for again later."""
        del line
        self._tries += 1
        if self._tries > NICK_TRIES:
            raise NotNow("Every nick that was tried on IRC is taken.", SERVICES_SECONDS)
        self.found.nick = f"{self._settings.nick[:20]}{'_' * min(self._tries, 2)}{max(0, self._tries - 2) or ''}"
        return [write_line("NICK", self.found.nick)]

    def _take_bad_nick(self, line: IrcLine) -> list[bytes]:
        del line
        raise ConfigProblem(
            f"The IRC server does not take the nick {self.found.nick}.", fix="Choose another: platforms.irc.nick."
        )

    def _take_ban(self, line: IrcLine) -> list[bytes]:
        raise NotNow(f"The IRC server has banned us: {strip_marks(line.param(-1))}", BANNED_SECONDS)

    def _take_server_password(self, line: IrcLine) -> list[bytes]:
        del line
        raise ConfigProblem("The IRC server asks for a password of its own.", fix="Use a server that is open.")

    def _take_error(self, line: IrcLine) -> list[bytes]:
        raise DeliveryFailure(f"The IRC server has ended the connection: {strip_marks(line.param(-1))}")

    def _take_welcome(self, line: IrcLine) -> list[bytes]:
        """A server that lets us in without a word on what it offers, or on who we are, is none for us."""
        if ACCOUNT_TAG not in self.found.caps:
            raise ConfigProblem(NO_ACCOUNTS, fix=NO_ACCOUNTS_FIX)
        if self._settings.logs_in and not self.found.account:
            raise ConfigProblem(BAD_LOGIN, fix=BAD_LOGIN_FIX)
        self.found.nick = line.param(0)
        return []

    def _take_supports(self, line: IrcLine) -> list[bytes]:
        for word in line.params[1:-1]:
            name, _, value = word.partition("=")
            self.found.supports[name] = value
        return []

    def _take_end(self, line: IrcLine) -> list[bytes]:
        del line
        self.done = True
        return []

    def _take_ping(self, line: IrcLine) -> list[bytes]:
        return [write_line("PONG", line.param(-1))]


_READERS: Mapping[str, Callable[[Handshake, IrcLine], list[bytes]]] = {
    "CAP": Handshake._take_cap,
    "AUTHENTICATE": Handshake._take_challenge,
    "PING": Handshake._take_ping,
    "ERROR": Handshake._take_error,
    "001": Handshake._take_welcome,
    "005": Handshake._take_supports,
    "376": Handshake._take_end,
    "422": Handshake._take_end,
    "432": Handshake._take_bad_nick,
    "433": Handshake._take_used_nick,
    "436": Handshake._take_used_nick,
    "437": Handshake._take_used_nick,
    "464": Handshake._take_server_password,
    "465": Handshake._take_ban,
    "900": Handshake._take_login,
    "903": Handshake._take_success,
    **dict.fromkeys(("902", "904", "905", "906", "908"), Handshake._take_bad_login),
}


def write_proof(proof: bytes) -> list[bytes]:
    """The lines of a SASL answer: pieces of 400 signs, and an empty one behind a piece that is full."""
    text = base64.b64encode(proof).decode()
    pieces = [text[start : start + SASL_BYTES] for start in range(0, len(text), SASL_BYTES)]
    if not pieces or len(pieces[-1]) == SASL_BYTES:
        pieces.append("+")
    return [write_line("AUTHENTICATE", piece) for piece in pieces]
