"""The lab's signal-cli judges: what the daemon would not take is refused, and what only people would miss is noted."""

import asyncio
import json
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from signal_rig import short_folder
from waiting import wait_until

from hermes_lab.chats import faults
from hermes_lab.chats.faults import ChatFault
from hermes_lab.chats.signal.signal_lab import NUMBER, SignalLab, SignalRemote


class Client:
    """A line to the daemon, without any of Hermes."""

    def __init__(self, port: int) -> None:
        self._socket = socket.create_connection(("127.0.0.1", port), timeout=30)
        self._file = self._socket.makefile("rwb")
        self._last = 0

    def write(self, data: bytes) -> None:
        self._file.write(data)
        self._file.flush()

    def read(self) -> dict[str, Any]:
        line = self._file.readline()
        assert line, "the line has ended"
        found: dict[str, Any] = json.loads(line)
        return found

    def begin(self, method: str, **params: Any) -> int:
        self._last += 1
        call = {"jsonrpc": "2.0", "id": self._last, "method": method, "params": {"account": NUMBER, **params}}
        self.write(json.dumps(call).encode() + b"\n")
        return self._last

    def call(self, method: str, **params: Any) -> Any:
        """The result, or the error."""
        number = self.begin(method, **params)
        while (answer := self.read()).get("id") != number:
            pass
        return answer.get("result", answer.get("error"))

    def has_ended(self) -> bool:
        try:
            return not self._file.readline()
        except OSError:
            return True

    def close(self) -> None:
        self._socket.close()


@pytest.fixture
def lab() -> Iterator[SignalLab]:
    with SignalLab() as server:
        yield server


@pytest.fixture
def ann(lab: SignalLab) -> str:
    return lab.add_person("Ann")


@pytest.fixture
def client(lab: SignalLab) -> Iterator[Client]:
    made = Client(lab.tcp_port)
    yield made
    made.close()


def kinds(lab: SignalLab) -> list[str]:
    return [complaint["kind"] for complaint in lab.complaints]


def test_a_message_is_sent_and_arrives(lab: SignalLab, client: Client, ann: str) -> None:
    sent = client.call("send", recipient=[ann], message="hello", textStyle=["0:5:BOLD"])
    assert [one["type"] for one in sent["results"]] == ["SUCCESS"]
    (shown,) = lab.messages(ann)
    assert (shown["text"], shown["timestamp"], shown["styles"]) == ("hello", sent["timestamp"], ["0:5:BOLD"])
    assert kinds(lab) == []


@pytest.mark.parametrize(
    ("line", "code"),
    [(b"\n", -32700), (b"{\n", -32700), (b'{"id":1}\n', -32600), (b"7\n", -32600), (b'{"jsonrpc":"1.0"}\n', -32600)],
)
def test_lines_that_are_no_calls(client: Client, line: bytes, code: int) -> None:
    client.write(line)
    assert client.read()["error"]["code"] == code


def test_a_call_without_an_id_gets_no_answer(client: Client) -> None:
    client.write(b'{"jsonrpc":"2.0","method":"version","params":{"account":"%s"}}\n' % NUMBER.encode())
    assert client.call("version") == {"version": "0.14.6"}


def test_two_calls_with_one_id_are_noted(lab: SignalLab, client: Client) -> None:
    lab.plan([ChatFault(faults.LATE, "version", seconds=0.5)])
    line = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "version", "params": {"account": NUMBER}}).encode()
    client.write(line + b"\n" + line + b"\n")
    wait_until(lambda: kinds(lab) == ["id"])


@pytest.mark.parametrize(
    ("params", "code"),
    [
        ({"message": ""}, -1),
        ({"message": "x", "quoteTimestamp": 5}, -1),
        ({"message": "x", "textStyle": ["0:1:LOUD"]}, -1),
        ({"message": "x", "recipient": ["nobody"]}, -1),
        ({"message": "x", "recipient": None}, -1),
        ({"message": "x", "recipient": None, "groupId": "none"}, -1),
        ({"message": "x", "account": "+1"}, -32602),
    ],
)
def test_what_the_daemon_refuses(lab: SignalLab, client: Client, ann: str, params: dict[str, Any], code: int) -> None:
    given = {"recipient": [ann], **params}
    assert client.call("send", **{k: v for k, v in given.items() if v is not None})["code"] == code
    assert lab.seen(ann) == []


@pytest.mark.parametrize(
    ("params", "kind"),
    [
        ({"message": "x", "mesage": "y"}, "fields"),
        ({"message": "é" * 1001}, "length"),
        ({"message": "x", "textStyle": ["0:2:BOLD"]}, "styles"),
        ({"message": "🙂x", "textStyle": ["1:1:BOLD"]}, "styles"),
        ({"message": "x", "editTimestamp": 5}, "edit"),
    ],
)
def test_what_only_people_would_miss(
    lab: SignalLab, client: Client, ann: str, params: dict[str, Any], kind: str
) -> None:
    client.call("send", recipient=[ann], **params)
    assert kinds(lab) == [kind]


def test_an_edit_has_to_name_the_one_before(lab: SignalLab, client: Client, ann: str) -> None:
    first = client.call("send", recipient=[ann], message="one")["timestamp"]
    second = client.call("send", recipient=[ann], message="two", editTimestamp=first)["timestamp"]
    assert lab.seen(ann) == ["two"]
    client.call("send", recipient=[ann], message="lost", editTimestamp=first)
    assert (lab.seen(ann), kinds(lab)) == (["two"], ["edit"])
    lab.forgive()
    for number in range(9):
        second = client.call("send", recipient=[ann], message=f"{number}", editTimestamp=second)["timestamp"]
    assert kinds(lab) == []
    client.call("send", recipient=[ann], message="too often", editTimestamp=second)
    assert (lab.seen(ann), kinds(lab)) == (["8"], ["edit"])


def test_a_message_to_ourselves_and_a_trusted_key_are_noted(lab: SignalLab, client: Client, ann: str) -> None:
    client.call("send", recipient=[lab.own_id], message="x")
    client.call("trust", recipient=ann, trustAllKnownKeys=True)
    assert kinds(lab) == ["own", "trust"]


def test_files_are_data_and_ids_no_paths(lab: SignalLab, client: Client, ann: str) -> None:
    client.call("send", recipient=[ann], attachments=["data:text/plain;filename=a.txt;base64,eA=="])
    assert lab.seen(ann) == ["a.txt"]
    assert client.call("send", recipient=[ann], attachments=["/etc/passwd"])["code"] == -32603
    assert client.call("getAttachment", id="../x", recipient=ann)["code"] == -32603
    assert kinds(lab) == ["file", "file"]


def test_a_text_that_is_too_long_ends_the_line(lab: SignalLab, client: Client, ann: str) -> None:
    client.begin("send", recipient=[ann], attachments=["x" * 20_000_001])
    assert client.has_ended()
    assert kinds(lab) == ["size"]


def test_nothing_is_received_before_somebody_listens(lab: SignalLab, client: Client, ann: str) -> None:
    lab.say(ann, "hello")
    assert client.call("version")
    assert lab.waiting == 1
    number = client.call("subscribeReceive")
    news = client.read()
    assert news["params"]["subscription"] == number
    assert news["params"]["result"]["envelope"]["dataMessage"]["message"] == "hello"
    client.call("unsubscribeReceive", subscription=number)
    lab.say(ann, "more")
    assert client.call("version")
    assert lab.waiting == 1


def test_a_daemon_that_receives_by_itself_loses_what_nobody_hears(lab: SignalLab, ann: str) -> None:
    lab.set_up(mode="on-start")
    lab.say(ann, "hello")
    wait_until(lambda: lab.lost == 1)
    client = Client(lab.tcp_port)
    assert client.call("version")
    lab.say(ann, "again")
    assert client.read()["params"]["envelope"]["dataMessage"]["message"] == "again"
    client.close()


def test_with_one_account_nobody_is_asked_for_its_number(lab: SignalLab, client: Client) -> None:
    lab.set_up(several=False)
    assert client.call("listAccounts")["code"] == -32601
    assert client.call("version", account="+1") == {"version": "0.14.6"}


def test_a_call_during_a_penalty_is_noted(lab: SignalLab, client: Client, ann: str) -> None:
    lab.punish(30, ann)
    refused = client.call("send", recipient=[ann], message="x")
    assert refused["code"] == -5
    assert refused["data"]["response"]["results"][0]["retryAfterSeconds"] in (29, 30)
    assert kinds(lab) == []
    lab.advance(5)
    client.call("send", recipient=[ann], message="x")
    assert kinds(lab) == ["penalty"]


def test_it_is_steered_from_another_process() -> None:
    command = [sys.executable, "-m", "hermes_cli.main", "lab", "signal"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout is not None
        try:
            lines = [server.stdout.readline() for _ in range(7)]
            remote = SignalRemote(lines[0].split(": ")[1].partition(" ")[0])
            path = Path(lines[1].split(": ")[1].partition(",")[0])
            person = lines[3].split(": ")[1].strip()
            remote.say(person, "hello")
            assert remote.waiting == 1
            with socket.socket(socket.AF_UNIX) as line:
                line.connect(str(path))
                line.sendall(b"\n")
                assert b"-32700" in line.recv(1000)
        finally:
            server.terminate()
            server.wait(30)
    assert not path.exists()


def test_it_listens_on_a_unix_socket_too() -> None:
    async def talk(path: Path) -> bytes:
        reader, writer = await asyncio.open_unix_connection(path)
        writer.write(b'{"jsonrpc":"2.0","id":1,"method":"listAccounts","params":{}}\n')
        line = await reader.readline()
        writer.close()
        await writer.wait_closed()
        return line

    with short_folder() as folder, SignalLab(folder / "socket"):
        assert json.loads(asyncio.run(talk(folder / "socket")))["result"][0] == {"number": NUMBER}
