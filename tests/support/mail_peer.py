"""A mail server on loopback: Dovecot has the mailboxes, and a real SMTP server takes mail in, writes what it proved of
the sender on top, and takes what is sent. It judges what it is sent, and fails as it is told to."""

import asyncio
import contextlib
import email
import grp
import itertools
import logging
import os
import pwd
import re
import shutil
import smtplib
import ssl
import subprocess
import tempfile
import threading
import time
from collections import deque
from collections.abc import AsyncIterator
from dataclasses import dataclass
from email import policy
from email.message import EmailMessage
from email.utils import parseaddr
from pathlib import Path
from typing import Any

from aiosmtpd.controller import Controller
from aiosmtpd.smtp import SMTP, AuthResult, Envelope, LoginPassword, Session
from peer_server import PeerProcess, answers, need_peer

from hermes_lab.ports import free_ports

PASSWORD = "pass-word-of-the-box-4711"
AUTHSERV_ID = "mx.home.test"
ROOM = 300  # mails in one mailbox
CUT_BEFORE, CUT_AFTER = "cut before", "cut after"
_numbers = itertools.count(1)
logging.getLogger("mail.log").setLevel(logging.CRITICAL)  # of the SMTP server: it writes all that it hears
_CONFIG = """
protocols = imap
listen = 127.0.0.1
base_dir = {folder}/run
state_dir = {folder}/state
log_path = /dev/stderr
default_internal_user = {user}
default_login_user = {user}
default_internal_group = {group}
ssl = yes
ssl_cert = <{folder}/server.pem
ssl_key = <{folder}/server.key
disable_plaintext_auth = no
auth_mechanisms = plain login
auth_failure_delay = 0
mail_location = maildir:{folder}/boxes/%u
mail_max_userip_connections = 100
mailbox_idle_check_interval = 1 secs
first_valid_uid = 1
mail_uid = {user}
mail_gid = {group}
passdb {{
  driver = passwd-file
  args = {folder}/revoked
  deny = yes
}}
passdb {{
  driver = static
  args = password={password}
}}
userdb {{
  driver = static
  args = uid={user} gid={group} home={folder}/homes/%u
}}
mail_plugins = quota
protocol imap {{
  mail_plugins = quota imap_quota
}}
plugin {{
  quota = count:Room
  quota_vsizes = yes
  quota_rule = *:storage=1G:messages={room}
}}
service anvil {{
  chroot =
  unix_listener anvil-auth-penalty {{
    mode = 0
  }}
}}
service stats {{
  chroot =
}}
service imap-login {{
  chroot =
  service_count = 0
  inet_listener imap {{
    port = {imap}
  }}
  inet_listener imaps {{
    port = {imaps}
    ssl = yes
  }}
}}
"""


@dataclass
class SmtpFault:
    """What the next mail of ours meets: a reply to its recipient or to its text, or a cut of the line."""

    reply: str = ""
    at_data: bool = False
    cut: str = ""


class MailHouse:
    """All of it, for as long as its block lasts. `sent` is what arrived of ours, by recipient."""

    def __init__(self) -> None:
        need_peer("dovecot", "openssl", "setpriv")
        self.folder = Path(tempfile.mkdtemp(prefix="hermes-mail-"))
        self.imap, self.imaps, self.smtp, self.smtps = free_ports(4)
        self.sent: dict[str, list[EmailMessage]] = {}
        self.complaints: list[str] = []
        self.faults: deque[SmtpFault] = deque()
        self.proven = {"friends.test"}
        self.penalty_until = 0.0
        self.revoked: set[str] = set()
        self._lock = threading.Lock()
        me = pwd.getpwuid(os.geteuid()) if os.geteuid() else pwd.getpwnam("nobody")
        self._user = me
        self._closing = contextlib.ExitStack()

    def __enter__(self) -> "MailHouse":
        try:
            self._closing.callback(shutil.rmtree, self.folder, ignore_errors=True)
            self._make_certificates()
            self._start_dovecot()
            self._start_smtp()
        except BaseException:
            self._closing.close()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self._closing.close()

    @property
    def ca_file(self) -> str:
        return str(self.folder / "ca.pem")

    def _make_certificates(self) -> None:
        ending = self.folder / "names"
        ending.write_text("subjectAltName=IP:127.0.0.1,DNS:localhost\n")
        key = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"]
        by_ca = ["-CA", "ca.pem", "-CAkey", "ca.key", "-CAcreateserial", "-days", "9", "-extfile", "names"]
        made = [
            ["req", "-x509", *key, "-keyout", "ca.key", "-out", "ca.pem", "-days", "9", "-subj", "/CN=Tests"],
            ["req", *key, "-keyout", "server.key", "-out", "server.csr", "-subj", "/CN=localhost"],
            ["x509", "-req", "-in", "server.csr", *by_ca, "-out", "server.pem"],
        ]
        for command in made:
            subprocess.run(["openssl", *command], cwd=self.folder, check=True, capture_output=True)

    def _start_dovecot(self) -> None:
        group = grp.getgrgid(self._user.pw_gid).gr_name
        facts = {"folder": self.folder, "user": self._user.pw_name, "group": group, "password": PASSWORD, "room": ROOM}
        (self.folder / "revoked").touch()
        config = self.folder / "dovecot.conf"
        config.write_text(_CONFIG.format(**facts, imap=self.imap, imaps=self.imaps))
        for name in ("run", "state", "boxes", "homes"):
            (self.folder / name).mkdir()
        program = ["/usr/sbin/dovecot", "-F", "-c", str(config)]
        if os.geteuid() == 0:  # it does not serve mail as root
            for path in [self.folder, *self.folder.rglob("*")]:
                os.chown(path, self._user.pw_uid, self._user.pw_gid)
            ids = ["--reuid", str(self._user.pw_uid), "--regid", str(self._user.pw_gid), "--clear-groups"]
            program = ["setpriv", *ids, *program]
        process = PeerProcess(program, self.folder)
        self._closing.callback(process.stop)
        process.start(lambda: answers(self.imap))

    def _start_smtp(self) -> None:
        self.tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self.tls.load_cert_chain(self.folder / "server.pem", self.folder / "server.key")
        given: dict[str, Any] = {"authenticator": self._log_in, "auth_require_tls": False, "hostname": "127.0.0.1"}
        given |= {"data_size_limit": 30_000_000, "server_hostname": AUTHSERV_ID}
        for port, more in ((self.smtp, {}), (self.smtps, {"ssl_context": self.tls})):
            controller = Controller(self, port=port, **given, **more)
            controller.start()
            self._closing.callback(controller.stop)

    def _log_in(self, server: SMTP, session: Session, envelope: Envelope, mechanism: str, data: Any) -> AuthResult:
        del server, session, envelope, mechanism
        assert isinstance(data, LoginPassword)
        user = data.login.decode()
        is_right = data.password.decode() == PASSWORD and user not in self.revoked
        return AuthResult(success=is_right, handled=False, auth_data=user)

    # --- what the SMTP server does

    async def handle_RCPT(self, server: SMTP, session: Session, envelope: Envelope, address: str, options: Any) -> str:
        del server, options
        fault = self.faults[0] if self.faults and session.authenticated else None
        if session.authenticated and time.monotonic() < self.penalty_until:
            self.complaints.append("penalty")
        if fault is not None and fault.reply and not fault.at_data:
            self.faults.popleft()
            waits = re.search(r"(\d+) seconds", fault.reply)
            self.penalty_until = time.monotonic() + int(waits[1]) - 0.2 if waits else 0.0
            return fault.reply
        envelope.rcpt_tos.append(address)
        return "250 OK"

    async def handle_DATA(self, server: SMTP, session: Session, envelope: Envelope) -> str:
        data, sender = bytes(envelope.content or b""), envelope.mail_from or ""
        if not session.authenticated:
            for recipient in envelope.rcpt_tos:
                await asyncio.to_thread(self.put, recipient, self._write_trace(sender, data))
            return "250 taken"
        fault = self.faults.popleft() if self.faults else SmtpFault()
        if fault.reply:
            return fault.reply
        if fault.cut != CUT_BEFORE:
            self._judge(session.auth_data, sender, data)
            for recipient in envelope.rcpt_tos:
                with self._lock:
                    self.sent.setdefault(recipient, []).append(read_message(data))
        if fault.cut:
            server.transport.abort()
        return "250 taken"

    def _write_trace(self, sender: str, data: bytes) -> bytes:
        """What a receiving server puts on top."""
        domain = parseaddr(read_message(data).get("From", ""))[1].rpartition("@")[2].lower()
        result = "pass" if domain in self.proven else "fail"
        return (
            f"Return-Path: <{sender.strip('<>')}>\r\n"
            f"Authentication-Results: {AUTHSERV_ID};\r\n"
            f"\tdkim={result} (a comment; with dmarc=pass in it) header.d={domain};\r\n"
            f"\tdmarc={result} (p=none) header.from={domain}\r\n"
            f"Received: from there by {AUTHSERV_ID}; Mon, 16 Nov 2026 10:00:00 +0000\r\n"
        ).encode() + data

    def _judge(self, user: str, sender: str, data: bytes) -> None:
        """What other servers would not like."""
        head, _, body = data.partition(b"\r\n\r\n")
        lines = data.split(b"\r\n")
        mail = read_message(data)
        names = [name.lower() for name in mail.keys()]  # noqa: SIM118 - each as often as it is there
        faults = {
            "line length": any(len(line) > 998 for line in lines),
            "bare line end": b"\n" in data.replace(b"\r\n", b"") or b"\r" in data.replace(b"\r\n", b""),
            "eight bits": not data.isascii(),
            "sender": user != sender or parseaddr(mail["From"])[1] != sender,
            "fields": any(names.count(name) != 1 for name in ("from", "to", "subject", "date", "message-id")),
            "id": not re.fullmatch(r"<[^<>\s@]+@home\.test>", mail["Message-ID"] or ""),
            "ids": any(b"=?" in line for line in re.findall(rb"(?im)^(?:references|in-reply-to):.*$", head)),
            "program": not str(mail["Auto-Submitted"]).startswith("auto-"),
            "empty": not body.strip(),
        }
        self.complaints += [name for name, holds in faults.items() if holds]

    # --- what people do

    def make_box(self, address: str) -> str:
        for name in ("cur", "new", "tmp"):
            self._make_folder(self.folder / "boxes" / address / name)
        return address

    def revoke(self, address: str) -> None:
        """The password of a mailbox counts no more, sooner or later."""
        self.revoked.add(address)
        (self.folder / "revoked").write_text("".join(f"{one}\n" for one in self.revoked))

    def _make_folder(self, path: Path) -> None:
        path.mkdir(parents=True, exist_ok=True)
        if os.geteuid() == 0:
            for one in (path, path.parent):
                os.chown(one, self._user.pw_uid, self._user.pw_gid)

    def put(self, recipient: str, data: bytes) -> None:
        """A mail into a mailbox, as it is."""
        box, name = self.folder / "boxes" / recipient, f"{time.time_ns()}.{next(_numbers)}.home"
        (box / "tmp" / name).write_bytes(data)
        if os.geteuid() == 0:
            os.chown(box / "tmp" / name, self._user.pw_uid, self._user.pw_gid)
        os.rename(box / "tmp" / name, box / "new" / name)

    def post(self, sender: str, recipient: str, data: bytes) -> None:
        """Somebody's server brings a mail."""
        with smtplib.SMTP("127.0.0.1", self.smtp, "there.test", 20) as line:
            line.sendmail(sender, recipient, data)

    def read_sent(self, address: str) -> list[EmailMessage]:
        with self._lock:
            return list(self.sent.get(address, []))

    def renumber(self, box: str) -> None:
        """The mailbox gets other numbers (UIDVALIDITY), as after a restored back-up; nobody may be connected."""
        for path in (self.folder / "boxes" / box).glob("dovecot*"):
            path.unlink()
        (self.folder / "boxes" / box / "dovecot-uidlist").write_text("3 V99 N7 G00000000000000000000000000000001\n")
        os.chown(self.folder / "boxes" / box / "dovecot-uidlist", self._user.pw_uid, self._user.pw_gid)

    def flags(self, box: str) -> list[str]:
        """The flags of each mail, by its file."""
        files = [path.name for path in (self.folder / "boxes" / box / "cur").iterdir()]
        return sorted(name.rpartition(":2,")[2] for name in files)


def read_message(data: bytes) -> EmailMessage:
    read = email.message_from_bytes(data, policy=policy.default)
    assert isinstance(read, EmailMessage)
    return read


def read_text(mail: EmailMessage) -> str:
    part = mail.get_body(("plain",))
    return str(part.get_content()).replace("\r\n", "\n").removesuffix("\n") if part is not None else ""


def list_files(mail: EmailMessage) -> list[tuple[str, bytes]]:
    return [(str(part.get_filename()), part.get_payload(decode=True)) for part in mail.iter_attachments()]


class LineProxy:
    """Stands between us and a server: cuts lines, holds them up, and hides what the server says it can do."""

    def __init__(self, port: int, hides: tuple[bytes, ...] = ()) -> None:
        self._to = port
        self._hides = hides
        self._writers: set[asyncio.StreamWriter] = set()
        self.port = 0
        self.frozen = False
        self.count = 0
        self.heard = bytearray()  # what we said
        self.answers: dict[bytes, bytes] = {}  # by a pattern of what we say: what is answered instead; empty: a cut

    @contextlib.asynccontextmanager
    async def serve(self) -> AsyncIterator["LineProxy"]:
        server = await asyncio.start_server(self._join, "127.0.0.1", 0)
        self.port = server.sockets[0].getsockname()[1]
        try:
            yield self
        finally:
            self.cut()
            server.close()
            await server.wait_closed()
            while self.count:  # noqa: ASYNC110 - its lines end by themselves
                await asyncio.sleep(0.005)

    def cut(self) -> None:
        for writer in self._writers:
            writer.transport.abort()

    async def _join(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.count += 1
        there: asyncio.StreamWriter | None = None
        try:
            there_reader, there = await asyncio.open_connection("127.0.0.1", self._to)
            self._writers |= {writer, there}
            await asyncio.gather(self._pass_on(reader, there, writer), self._pass_on(there_reader, writer, None))
        except OSError:
            pass
        finally:
            for one in (writer, there):
                if one is not None:
                    self._writers.discard(one)
                    one.close()
                    with contextlib.suppress(OSError):
                        await one.wait_closed()
            self.count -= 1

    async def _pass_on(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, back: asyncio.StreamWriter | None
    ) -> None:
        """`back`: whom it comes from, where that is us."""
        with contextlib.suppress(OSError):
            while data := await reader.read(65_536):
                while self.frozen:  # noqa: ASYNC110 - until the test says so
                    await asyncio.sleep(0.01)
                if back is not None:
                    self.heard += data
                    if self._answer(data, back):
                        continue
                for word in self._hides if back is None and b"CAPABILITY" in data else ():
                    data = data.replace(word, b"")
                writer.write(data)
                await writer.drain()
        writer.close()

    def _answer(self, data: bytes, back: asyncio.StreamWriter) -> bool:
        """Whether it was answered in place of the server."""
        for pattern, answer in self.answers.items():
            if re.search(pattern, data):
                if answer:
                    back.write(data.partition(b" ")[0] + b" " + answer + b"\r\n")
                else:
                    back.transport.abort()
                return True
        return False
