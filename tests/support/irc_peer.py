"""A real IRC network on loopback: InspIRCd with Atheme's services, people at it, and a wire that can be cut."""

import atexit
import base64
import functools
import itertools
import os
import shutil
import socket
import subprocess
import tempfile
import threading
from collections.abc import Callable
from pathlib import Path

from peer_server import PeerProcess, answers, need_peer
from waiting import wait_until

from hermes_lab.ports import free_ports

BOT, PASSWORD = "hermes", "the-very-secret-word"
_DAEMON = "irc"  # Atheme does not run as root
_PEOPLE = "127.0.0.2"  # who comes from here may write as fast as they like
_MODULES = (
    "spanningtree services_account cap sasl ircv3 ircv3_accounttag ircv3_servertime ircv3_echomessage "
    "ircv3_labeledresponse ircv3_batch ircv3_msgid ircv3_ctctags ircv3_capnotify sha256 hostchange chanhistory "
    "monitor blockcolor botmode callerid svshold ssl_gnutls sslinfo"
)
#: The bot's line is ended at once when it sends more than a server with the usual settings would let wait.
_SERVER = """
<server name="irc.test" description="Test" network="TestNet" id="1AA">
<admin name="t" nick="t" email="t@t.test">
<bind address="127.0.0.1" port="{clients}" type="clients">
<bind address="127.0.0.1" port="{tls}" type="clients" sslprofile="own">
<bind address="127.0.0.1" port="{servers}" type="servers">
<connect name="people" allow="127.0.0.2" timeout="30" pingfreq="300" threshold="100000" commandrate="1" fakelag="no"
 recvq="1M" hardsendq="4M" softsendq="1M"
 localmax="500" globalmax="500" resolvehostnames="no" useident="no" limit="900">
<connect name="bots" allow="127.0.0.1" timeout="30" pingfreq="{ping}" threshold="10" commandrate="1000" fakelag="no"
 recvq="8K" hardsendq="1M" softsendq="64K"
 localmax="500" globalmax="500" resolvehostnames="no" useident="no" limit="900">
<options casemapping="ascii" prefixquit="">
<performance nouserdns="yes">
<pid file="{folder}/ircd.pid">
<log method="file" level="default" type="* -USERINPUT -USEROUTPUT" target="{folder}/ircd.log">
<chanhistory maxlines="50" prefixmsg="no" bots="yes">
<sslprofile name="own" provider="gnutls" certfile="{folder}/server.pem" keyfile="{folder}/server.key"
 requestclientcert="yes" hash="sha256">
<sasl target="services.test" requiressl="no">
<uline server="services.test" silent="yes">
<link name="services.test" ipaddr="127.0.0.1" port="{servers}" allowmask="127.0.0.0/8" sendpass="x" recvpass="x">
<class name="all" commands="*" usermodes="*" chanmodes="*"><type name="all" classes="all">
<oper name="oper" password="oper" host="*@*" type="all">
"""
_SERVICES = """
serverinfo {{ name = "services.test"; desc = "s"; numeric = "00A"; recontime = 1; netname = "TestNet"; adminname = "t";
 adminemail = "t@t.test"; registeremail = "t@t.test"; auth = none; mta = "/bin/true"; loglevel = {{ error; info; }};
 maxcertfp = 5; maxlogins = 50; maxusers = 0; mdlimit = 30; emaillimit = 100; emailtime = 300; casemapping = ascii; }};
uplink "irc.test" {{ host = "127.0.0.1"; send_password = "x"; receive_password = "x"; port = {servers}; }};
nickserv {{ nick = "NickServ"; user = "NickServ"; host = "services.test"; real = "n"; aliases {{}}; maxnicks = 5;
 expire = 0; enforce_delay = 30; }};
saslserv {{ nick = "SaslServ"; user = "SaslServ"; host = "services.test"; real = "s"; }};
general {{ helpchan = "#h"; helpurl = "x"; silent; flood_msgs = 0; ratelimit_uses = 0; commit_interval = 5; }};
"""
_SERVICE_MODULES = (
    "protocol/inspircd backend/opensex nickserv/main nickserv/register nickserv/identify nickserv/ghost nickserv/cert "
    "nickserv/logout saslserv/main saslserv/plain saslserv/external"
)
ACCOUNTS = ("ann", "bob")
_PATIENCE = 20.0
_numbers = itertools.count(1)


class IrcPeer:
    """The network. Accounts: `hermes` for the bot, `ann` and `bob`, all with one password."""

    def __init__(self, ping: int = 60) -> None:
        need_peer("inspircd", "atheme-services", "openssl")
        self.folder = Path(tempfile.mkdtemp(prefix="irc-peer-"))
        self.port, self.tls_port, servers = free_ports(3)
        make_certificates(self.folder)
        ports = {"clients": self.port, "tls": self.tls_port, "servers": servers, "folder": self.folder, "ping": ping}
        modules = "".join(f'<module name="{name}">\n' for name in _MODULES.split())
        (self.folder / "ircd.conf").write_text(modules + _SERVER.format(**ports))
        home = self.folder / "services"
        home.mkdir()
        loads = "".join(f'loadmodule "modules/{name}";\n' for name in _SERVICE_MODULES.split())
        (home / "atheme.conf").write_text(loads + _SERVICES.format(servers=servers))
        command: list[str | Path] = ["atheme-services", "-n", "-c", home / "atheme.conf", "-D", home]
        command += ["-l", home / "services.log", "-p", home / "pid"]
        flags = []
        if os.geteuid() == 0:
            self.folder.chmod(0o755)
            shutil.chown(home, _DAEMON)
            command = ["setpriv", "--reuid", _DAEMON, "--regid", _DAEMON, "--clear-groups", *command]
            flags = ["--runasroot"]
        server = ["/usr/sbin/inspircd", *flags, "--nofork", f"--config={self.folder}/ircd.conf"]
        self.server = PeerProcess(server, self.folder)
        self.services = PeerProcess(command, home)
        self._people: dict[str, IrcPerson] = {}

    def start(self) -> None:
        self.server.start(lambda: answers(self.port))
        self.start_services()
        for account in (BOT, *ACCOUNTS):
            person = IrcPerson(self, f"{account}-1")
            person.send(f"NICK {account}")
            person.wait(f"NICK :{account}")
            person.send(f"PRIVMSG NickServ :REGISTER {PASSWORD} {account}@t.test")
            person.wait("is now registered")
            person.close()

    def start_services(self) -> None:
        self.services.start(self.has_services)

    def stop(self) -> None:
        for person in self._people.values():
            person.close()
        self.services.stop(kill=True)
        self.server.stop(kill=True)
        shutil.rmtree(self.folder, ignore_errors=True)

    def person(self, nick: str, account: str = "") -> "IrcPerson":
        """Somebody with this nick now, who stays from test to test."""
        if account not in self._people:
            self._people[account] = IrcPerson(self, f"x{next(_numbers)}", account)
        person = self._people[account]
        for other in self._people.values():
            if other is not person and other.nick == nick:
                other.rename(f"x{next(_numbers)}")
        person.reset(nick)
        return person

    def wait_bot_gone(self, by: "IrcPerson") -> None:
        """A server works off what a bot sent before it left: until that is done, it would be heard by the next test."""

        def is_gone() -> bool:
            seen = by.count(" 303 ")
            by.send(f"ISON {BOT}")
            return BOT not in by.wait(" 303 ", seen + 1).rpartition(" :")[2].split()

        wait_until(is_gone, _PATIENCE)

    def everybody_leaves(self) -> None:
        for person in self._people.values():
            person.reset(person.nick)

    def fingerprint(self, certificate: str) -> str:
        """As the server tells it to the services."""
        words = ["openssl", "x509", "-in", certificate, "-noout", "-fingerprint", "-sha256"]
        told = subprocess.run(words, cwd=self.folder, check=True, capture_output=True, text=True).stdout
        return told.strip().partition("=")[2].replace(":", "").lower()

    def has_services(self) -> bool:
        """Whether one can log in."""
        with socket.create_connection(("127.0.0.1", self.port), 5, (_PEOPLE, 0)) as line:
            line.settimeout(5)
            line.sendall(b"CAP LS 302\r\n")
            return b"sasl=" in line.recv(4096)


@functools.cache
def shared_peer() -> IrcPeer:
    """One network for all tests of a process."""
    peer = IrcPeer()
    atexit.register(peer.stop)
    peer.start()
    return peer


class IrcPerson:
    """Somebody with a client. Reads on a thread of its own."""

    def __init__(self, peer: IrcPeer, nick: str, account: str = "", port: int = 0) -> None:
        self.nick = nick
        self.lines: list[str] = []
        self._channels: list[str] = []
        self._from = 0  # lines before it belong to another test
        self._line = socket.create_connection(("127.0.0.1", port or peer.port), 10, (_PEOPLE, 0))
        self._line.settimeout(None)
        self._reading = threading.Thread(target=self._read, daemon=True)
        self._reading.start()
        self.send("CAP LS 302", f"NICK {nick}", f"USER {nick[:9]} 0 * :{nick}")
        caps = "message-tags account-tag server-time echo-message batch"
        self.send(f"CAP REQ :{caps}{' sasl' if account else ''}")
        if account:
            self.wait(" ACK ")
            proof = base64.b64encode(f"\0{account}\0{PASSWORD}".encode()).decode()
            self.send("AUTHENTICATE PLAIN")
            self.wait("AUTHENTICATE :+")
            self.send(f"AUTHENTICATE {proof}")
            self.wait(" 903 ")
        self.send("CAP END")
        self.wait(" 422 ")

    def send(self, *lines: str) -> None:
        self._line.sendall("".join(f"{line}\r\n" for line in lines).encode())

    def close(self) -> None:
        try:
            self._line.shutdown(socket.SHUT_RDWR)
        except OSError:
            pass
        self._reading.join(5)
        self._line.close()

    def reset(self, nick: str) -> None:
        """As if they had just come."""
        for channel in self._channels:
            self.send(f"PART {channel}")
            wait_until(lambda channel=channel: any(f" PART :{channel}" in line for line in self.recent()), _PATIENCE)
        self._channels.clear()
        self._from = len(self.lines)
        if nick != self.nick:
            self.rename(nick)
            self._from = len(self.lines)

    def rename(self, nick: str) -> None:
        self.send(f"NICK {nick}")
        self.wait(f"NICK :{nick}")
        self.nick = nick

    def recent(self) -> list[str]:
        return self.lines[self._from :]

    def count(self, words: str) -> int:
        return sum(words in line for line in self.recent())

    def wait(self, words: str, times: int = 1) -> str:
        wait_until(lambda: self.count(words) >= times, _PATIENCE)
        return [line for line in self.recent() if words in line][-1]

    def join(self, channel: str) -> None:
        self.send(f"JOIN {channel}")
        wait_until(lambda: any(" 366 " in line and f" {channel} " in line for line in self.recent()), _PATIENCE)
        self._channels.append(channel)

    def said(self, to: str = "", by: str = BOT, command: str = "PRIVMSG") -> list[str]:
        """What the bot, or somebody else, said to us or in a channel, in order."""
        texts = []
        for line in self.recent():
            words = line.split(" ", 1)[1] if line.startswith("@") else line
            source, _, rest = words.partition(" ")
            if source.lower().startswith(f":{by.lower()}!") and rest.startswith(f"{command} {to or self.nick} :"):
                texts.append(rest.partition(" :")[2])
        return texts

    def _read(self) -> None:
        left = b""
        while True:
            try:
                data = self._line.recv(65536)
            except OSError:
                return
            if not data:
                return
            *whole, left = (left + data).split(b"\r\n")
            for one in whole:
                line = one.decode("utf-8", "replace")
                if line.startswith("PING"):
                    self.send("PONG" + line[4:])
                self.lines.append(line)


class IrcProxy:
    """A wire between the bot and the server: it can be cut, made to answer in the server's place, and to say again what
    the server said."""

    def __init__(self, port: int, *, strict: bool = True) -> None:
        """`strict`: the server minds how fast the bot writes."""
        self._upstream = port
        self._source = None if strict else (_PEOPLE, 0)
        self._door = socket.create_server(("127.0.0.1", 0))
        self.port = self._door.getsockname()[1]
        self.welcomed = 0  # connections that were let in
        self.answers: list[str] = []  # given to the next messages of the bot, which are not handed on
        self.eats: list[str] = []  # commands of the bot of which one each is lost
        self.holds = False  # nothing goes through, and nobody is told
        self.cut_before = self.cut_after = False
        self.edit: Callable[[bytes], bytes | None] = lambda line: line  # what the bot hears, line by line
        self.sent: list[str] = []  # by the bot
        self.heard: list[bytes] = []  # messages of people to the bot
        self._pairs: list[tuple[socket.socket, socket.socket]] = []
        self._threads = [threading.Thread(target=self._accept, daemon=True)]
        self._threads[0].start()

    def __enter__(self) -> "IrcProxy":
        return self

    def __exit__(self, *_: object) -> None:
        try:
            self._door.shutdown(socket.SHUT_RDWR)
        except OSError:
            pass
        self._door.close()
        self.cut()
        for thread in self._threads:
            thread.join(5)

    def cut(self) -> None:
        pairs, self._pairs = self._pairs, []
        for end in (end for pair in pairs for end in pair):
            try:
                end.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass

    def count_open(self) -> int:
        return len(self._pairs)

    def tell(self, line: bytes) -> None:
        """A line to the bot, as if the server had said it."""
        for bot, _ in self._pairs:
            bot.sendall(line + b"\r\n")

    def _accept(self) -> None:
        while True:
            try:
                bot, _ = self._door.accept()
            except OSError:
                return
            try:
                server = socket.create_connection(("127.0.0.1", self._upstream), 10, self._source)
            except OSError:
                bot.close()
                continue
            server.settimeout(None)
            self._pairs.append((bot, server))
            for start, end, handle in ((bot, server, self._say), (server, bot, self._hear)):
                thread = threading.Thread(target=self._pump, args=(start, end, handle), daemon=True)
                self._threads.append(thread)
                thread.start()

    def _pump(self, start: socket.socket, end: socket.socket, handle: Callable[[bytes], bytes | None]) -> None:
        left = b""
        try:
            while data := start.recv(65536):
                *whole, left = (left + data).split(b"\r\n")
                for line in whole:
                    passed = None if self.holds else handle(line)
                    if passed is not None:
                        end.sendall(passed + b"\r\n")
        except OSError:
            pass
        self._pairs = [pair for pair in self._pairs if start not in pair]
        for one in (start, end):
            try:
                one.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass
        start.close()

    def _say(self, line: bytes) -> bytes | None:
        text = line.decode("utf-8", "replace")
        command = text.split(" ", 1)[1] if text.startswith("@") else text
        is_eaten = command.split(" ")[0] in self.eats
        self.sent.append(text)
        if is_eaten:
            self.eats.remove(command.split(" ")[0])
            return None
        if not command.startswith("PRIVMSG ") or command.startswith("PRIVMSG NickServ"):
            return line
        if self.answers:
            self.tell(self.answers.pop(0).format(target=command.split(" ")[1]).encode())
            return None
        if self.cut_before:
            self.cut_before = False
            self.cut()
            return None
        return line

    def _hear(self, line: bytes) -> bytes | None:
        words = line.split(b" ")
        words = words[1:] if line.startswith(b"@") else words
        if words[1:2] == [b"001"]:
            self.welcomed += 1
        if words[1:2] == [b"PRIVMSG"]:
            if words[0].startswith(b":" + BOT.encode()):
                if self.cut_after:
                    self.cut_after = False
                    self.cut()
                    return None
            else:
                self.heard.append(line)
        return self.edit(line)


def make_certificates(folder: Path) -> None:
    """An authority (`ca.pem`), a server that it vouches for, and a client (`client.pem`, with its key)."""

    def run(*words: str) -> None:
        subprocess.run(["openssl", *words], cwd=folder, check=True, capture_output=True)

    key = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes")
    run("req", "-x509", *key, "-keyout", "ca.key", "-out", "ca.pem", "-days", "2", "-subj", "/CN=Test CA")
    (folder / "ext").write_text("subjectAltName=DNS:localhost,IP:127.0.0.1\n")
    run("req", *key, "-keyout", "server.key", "-out", "server.csr", "-subj", "/CN=localhost")
    signed = ("-CA", "ca.pem", "-CAkey", "ca.key", "-CAcreateserial", "-days", "2", "-extfile", "ext")
    run("x509", "-req", "-in", "server.csr", "-out", "server.pem", *signed)
    run("req", "-x509", *key, "-keyout", "client.key", "-out", "client.crt", "-days", "2", "-subj", "/CN=hermes")
    (folder / "client.pem").write_text((folder / "client.crt").read_text() + (folder / "client.key").read_text())
