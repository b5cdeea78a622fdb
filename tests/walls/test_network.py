"""Commands in the sandbox reach the network through the proxy alone (G5, G8, G9), with real servers on loopback."""

import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from commands import Hands, Person, new_mark
from waiting import wait_until

from hermes_base.errors import ToolFailure
from hermes_base.text.foreign import NETWORKED, ForeignText
from hermes_lab.ports import free_ports
from tools.policy import command_gate
from tools.shell import network_client as network_module
from tools.shell import sandbox, shells
from tools.shell.keeper import PROXY_PORT
from tools.shell.network_client import make_proxy_environment, network_client
from tools.shell.sandbox import Walls, is_bubblewrap_usable
from tools.shell.shells import ShellStart, find_state, shell_of
from tools.terminal_tool import cleanup_vm

pytestmark = pytest.mark.skipif(not is_bubblewrap_usable(), reason="bwrap does not run on this machine")
WORK = {"level": "work"}
COULD_NOT_CONNECT = 7  # says curl
METADATA = "http://169.254.169.254/latest"


class Page(BaseHTTPRequestHandler):
    """Answers, leads elsewhere, or says nothing."""

    def do_GET(self) -> None:
        self.server.heard.append(self.path)  # type: ignore[attr-defined]
        if self.path == "/redirect":
            self.send_response(302)
            self.send_header("Location", METADATA)
        else:
            self.send_response(200)
        self.end_headers()
        self.wfile.write(b"hello")

    def log_message(self, *_: object) -> None:
        return


@pytest.fixture(scope="module")
def server() -> Iterator[ThreadingHTTPServer]:
    with ThreadingHTTPServer(("127.0.0.1", 0), Page) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
        thread.start()
        yield server
        server.shutdown()
        thread.join()


@pytest.fixture
def site(server: ThreadingHTTPServer) -> ThreadingHTTPServer:
    server.heard = []  # type: ignore[attr-defined]
    return server


@pytest.fixture
def hands(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Hands]:
    work = tmp_path / "person" / "work"
    work.mkdir(parents=True)
    monkeypatch.setenv("HOME", str(work.parent))
    yield make_hands("network", work, "127.0.0.1")
    cleanup_vm("network")


@pytest.fixture
def other(hands: Hands) -> Iterator[Hands]:
    """Another task in the same folder."""
    yield make_hands("network-2", Path(hands.facts["folder"]), "127.0.0.1")
    cleanup_vm("network-2")


def make_hands(task: str, work: Path, *private: str) -> Hands:
    hands = Hands(task, work, "bubblewrap")
    hands.facts["settings"]["network"] = {"private": list(private)}
    return hands


def address(site: ThreadingHTTPServer, path: str = "/", host: str = "127.0.0.1") -> str:
    return f"http://{host}:{site.server_port}{path}"


def test_what_is_allowed_is_reached_through_the_proxy(hands: Hands, site: ThreadingHTTPServer) -> None:
    """G5, G8, G9: plainly and by a tunnel, by curl and by Python; and what comes is foreign text."""
    foreign = ForeignText()
    python = f"import urllib.request; print(urllib.request.urlopen('{address(site, '/python')}').read())"
    command = f'curl -sS {address(site, "/plain")}; curl -sSp {address(site, "/tunnel")}; python3 -c "{python}"'
    result = hands.run(command, WORK, foreign=foreign)
    assert result["output"].count("hello") == 3, result
    assert site.heard == ["/plain", "/tunnel", "/python"]  # type: ignore[attr-defined]
    assert foreign.origins == (NETWORKED,)


def test_nothing_else_is_reached(hands: Hands, site: ThreadingHTTPServer, tmp_path: Path) -> None:
    """G5: neither the machine's loopback, nor another address, nor a raw packet, nor sockets of the home; nor by an
    abstract name."""
    port = site.server_port
    with socket.socket(socket.AF_UNIX) as named, socket.socket(socket.AF_UNIX) as abstract:
        place = tmp_path / "person" / "s"
        named.bind(str(place))
        abstract.bind(f"\0hermes-test-{os.getpid()}")
        for each in (named, abstract):
            each.listen()
        tries = [
            f"('INET', ('127.0.0.1', {port}))",
            f"('INET', ('127.1.2.3', {port}))",
            f"('INET', ('0.0.0.0', {port}))",
            "('INET', ('169.254.169.254', 80))",
            "('INET', ('192.0.2.1', 80))",
            f"('INET6', ('::1', {port}))",
            f"('INET6', ('::ffff:127.0.0.1', {port}))",
            "('INET6', ('2001:db8::1', 80))",
            f"('UNIX', {str(place)!r})",
            f"('UNIX', '\\0hermes-test-{os.getpid()}')",
        ]
        program = (
            "import socket\n"
            f"for family, where in [{', '.join(tries)}]:\n"
            "    with socket.socket(getattr(socket, 'AF_' + family)) as s:\n"
            "        s.settimeout(5)\n"
            "        try: s.connect(where); print('REACHED', where)\n"
            "        except OSError: print('no')\n"
            "for kind in ((socket.AF_INET, socket.SOCK_RAW, 1), (socket.AF_PACKET, socket.SOCK_RAW, 3)):\n"
            "    try: socket.socket(*kind); print('REACHED', kind)\n"
            "    except OSError: print('no')\n"
        )
        (tmp_path / "person" / "work" / "try.py").write_text(program)
        result = hands.run(
            f"python3 try.py; curl -sS --noproxy '*' {address(site)} || echo no; ls /sys/class/net", WORK
        )
    assert "REACHED" not in result["output"], result
    assert result["output"].splitlines().count("no") == len(tries) + 3, result
    assert site.heard == []  # type: ignore[attr-defined]


REFUSED = (
    *("169.254.169.254", "2852039166", "0251.0376.0251.0376", "0xA9FEA9FE", "[::ffff:169.254.169.254]"),
    *("[::1]", "10.0.0.1", "2130706434"),
)


def test_what_may_not_be_called_is_refused_and_told(hands: Hands, site: ThreadingHTTPServer) -> None:
    """G8: however it is written, plainly or by a tunnel, also as the target of a redirect."""
    calls = " ".join(f"http://{host}:1/ https://{host}:1/" for host in REFUSED)
    told = "%{http_code} %{http_connect}\\n"
    command = f"for u in {calls}; do curl --noproxy '' -gsS -o /dev/null -w '{told}' $u 2>&1; done"
    output = hands.run(command, WORK)["output"]
    answers = [line for line in output.splitlines() if not line.startswith("curl:")]
    assert answers == ["403 000", "000 403"] * len(REFUSED)
    result = hands.run(f"curl -sSL {address(site, '/redirect')}", WORK)
    assert "never called" in result["output"]
    assert "The proxy refused: 169.254.169.254" in result["note"]


def test_a_server_in_the_background_is_reached_by_its_task_alone(
    hands: Hands, other: Hands, site: ThreadingHTTPServer, tmp_path: Path
) -> None:
    """G5: by the next command of the task; not by another task, by what only looks, or from the machine."""
    for each in (hands, other):
        each.facts["settings"]["network"] = {"private": []}
    (tmp_path / "person" / "work" / "index.html").write_text("its own page")
    (port,) = free_ports(1)
    serving = hands.process("start", command=f"python3 -m http.server -b 127.0.0.1 {port}", level="work")["id"]
    calling = f"curl -sS http://localhost:{port}/"
    assert "its own page" in hands.run(f"until {calling}; do sleep 0.05; done", WORK)["output"]
    assert other.run(calling, WORK)["exit_code"] == COULD_NOT_CONNECT
    assert f":{port:04X} " in hands.run("cat /proc/net/tcp", WORK)["output"]
    assert f":{port:04X} " not in look(hands, "cat /proc/net/tcp")
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.1", port))
    hands.process("kill", id=serving)
    assert "localhost" in make_proxy_environment([])["no_proxy"]
    assert make_proxy_environment(["127.0.0.0/8", "::1"])["NO_PROXY"] == ""


def look(hands: Hands, command: str) -> str:
    """What a command says that only looks."""
    context = hands.context()
    shell = shell_of(context)
    running = shells.launch(
        ShellStart(command, find_state(shell, context), Walls.LOOK), shell, context, pty=False
    ).running
    running.pump()
    running.finish()
    said = running.spool.read(0, 4096)[1].decode()
    running.spool.close()
    assert "local_address" in said
    return said


OWN_NETWORK = "readlink /proc/self/ns/net"


def test_first_commands_at_once_make_one_network(hands: Hands, other: Hands) -> None:
    with ThreadPoolExecutor(3) as pool:
        seen = set(pool.map(lambda _: hands.run(OWN_NETWORK, WORK)["output"], range(3)))
    assert len(seen) == 1
    assert {other.run(OWN_NETWORK, WORK)["output"], os.readlink("/proc/self/ns/net") + "\n"}.isdisjoint(seen)


NO_RIGHTS = """
import fcntl, os, socket
print(sorted(os.listdir('/proc/self/fd')))
def attempt(what, do):
    try: do(); print('DONE', what)
    except OSError: print('no')
def take_port(host):
    with socket.socket() as s:
        for option in (socket.SO_REUSEADDR, socket.SO_REUSEPORT): s.setsockopt(socket.SOL_SOCKET, option, 1)
        s.bind((host, 3128))
for kind in ((socket.AF_INET, 3, 1), (socket.AF_INET6, 3, 58), (socket.AF_PACKET, 3, 3), (socket.AF_PACKET, 2, 3)):
    attempt(kind, lambda: socket.socket(*kind))
for host in ('127.0.0.1', '0.0.0.0', '127.0.0.2'):
    attempt(host, lambda: take_port(host))
attempt('parent', lambda: fcntl.ioctl(os.open('/proc/self/ns/user', os.O_RDONLY), 0xB702))
attempt('settings', lambda: open('/proc/sys/net/ipv4/ip_unprivileged_port_start', 'w').write('0'))
attempt('up', lambda: fcntl.ioctl(socket.socket(), 0x8914, b'lo'.ljust(16, b'\\0') + b'\\0' * 24))
"""


def test_a_command_has_no_rights_over_the_network_that_it_shares(hands: Hands, tmp_path: Path) -> None:
    """G5: it neither listens to what passes, nor takes the proxy's port, nor sees or ends other commands; nor as the
    root of namespaces that it makes."""
    mark = new_mark()
    (tmp_path / "person" / "work" / "rights.py").write_text(NO_RIGHTS)
    beside = hands.process("start", command=f"sleep 300; : {mark}", level="work")["id"]
    trying = "python3 rights.py; unshare -U python3 rights.py; cat /proc/*/cmdline | tr '\\0' ' '"
    result = hands.run(trying, WORK)
    assert "DONE" not in result["output"], result
    assert result["output"].splitlines().count("no") == 20, result
    assert result["output"].count("['0', '1', '2', '3']") == 2, result
    assert mark not in result["output"]
    assert hands.process("kill", id=beside)


def find_users(network: str) -> list[str]:
    """What is in a network, or holds it: processes and descriptors."""
    found = []
    for place in Path("/proc").glob("[0-9]*"):
        try:
            links = [place / "ns" / "net", *(place / "fd").iterdir()]
        except OSError:
            continue
        for link in links:
            with contextlib.suppress(OSError):
                if os.readlink(link) == network:
                    found.append(str(link))
    return found


def test_a_network_is_there_as_long_as_its_task_and_what_runs_in_it(hands: Hands, site: ThreadingHTTPServer) -> None:
    """F1, G5: and so is the port of the proxy."""
    network = hands.run(OWN_NETWORK, WORK)["output"].strip()
    assert find_users(network)
    command = f"touch started; until [ -e go ]; do sleep 0.02; done; curl -sS {address(site)} >got; mv got done"
    hands.process("start", command=command, level="work")
    folder = Path(hands.facts["folder"])
    wait_until(lambda: (folder / "started").exists())
    cleanup_vm("network")  # which leaves what runs in the background
    assert find_users(network)
    (folder / "go").touch()
    wait_until(lambda: (folder / "done").exists())
    assert (folder / "done").read_text() == "hello"
    wait_until(lambda: not find_users(network))
    assert hands.run(OWN_NETWORK, WORK)["output"].strip()


def test_few_networks_are_kept_in_which_nothing_runs(
    hands: Hands, other: Hands, monkeypatch: pytest.MonkeyPatch
) -> None:
    """F1: a gateway has thousands of tasks. One in which something runs is kept."""
    monkeypatch.setattr(network_module, "MOST_IDLE", 0)
    first = hands.run(OWN_NETWORK, WORK)["output"]
    running = hands.process("start", command="sleep 300", level="work")["id"]
    other.run("true", WORK)
    assert hands.run(OWN_NETWORK, WORK)["output"] == first
    hands.process("kill", id=running)
    cleanup_vm("network-2")
    other.run("true", WORK)
    wait_until(lambda: not find_users(first.strip()))


def test_a_network_is_given_out_when_it_is_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    """The porter has been there before loopback is up: if the sandbox fails after that, there is no network."""
    with monkeypatch.context() as patched:
        patched.setattr(sandbox, "MAKE_NETWORK", (*sandbox.MAKE_NETWORK, "--chdir", "/no/such/folder"))
        with pytest.raises(OSError, match=r"chdir|No such"):
            sandbox.make_network()
    with sandbox.make_network() as network:
        assert network.listener.getsockname()[1] == PROXY_PORT


def test_a_network_that_cannot_be_made_is_told_and_hinders_nobody(
    hands: Hands, other: Hands, site: ThreadingHTTPServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail() -> None:
        raise OSError("no more networks")

    hands.run("true", WORK)
    proxy = network_client.pid
    with monkeypatch.context() as patched:
        patched.setattr(network_module, "make_network", fail)
        with pytest.raises(ToolFailure, match="no more networks; nothing was run"):
            other.run("true", WORK)
        assert hands.run(f"curl -sS {address(site)}", WORK)["output"] == "hello"
    assert network_client.pid == proxy
    assert other.run(f"curl -sS {address(site)}", WORK)["output"] == "hello"


def test_two_tasks_at_once_and_one_that_floods(
    hands: Hands, other: Hands, site: ThreadingHTTPServer, tmp_path: Path
) -> None:
    """G8: 300 silent connections of one task hinder neither the other, nor are its refusals told there."""
    flood = (
        "import socket, time\n"
        "held = [socket.create_connection(('127.0.0.1', 3128)) for _ in range(300)]\n"
        "[s.send(b'GET http://10.0.0.9/ HT') for s in held[:100]]\n"
        "print('held', flush=True)\n"
        "time.sleep(300)\n"
    )
    (tmp_path / "person" / "work" / "flood.py").write_text(flood)
    command = "curl -sS http://10.0.0.9/; python3 flood.py"
    flooding = other.process("start", command=command, level="work")["id"]
    wait_until(lambda: "held" in other.process("read", id=flooding)["output"])
    result = hands.run(f"curl -sS {address(site)}; curl -sS http://10.0.0.8/", WORK)
    assert result["output"].startswith("hello")
    assert "10.0.0.8" in result["note"]
    assert "10.0.0.9" not in result["note"]
    # The flood gives way to the task's own call, too, which is not told of what was refused before it.
    result = other.run(f"curl -sS {address(site)}", WORK)
    assert result["output"] == "hello"
    assert "note" not in result
    other.process("kill", id=flooding)


def test_it_costs_nothing_until_a_command_has_the_network(hands: Hands) -> None:
    """G5: what only looks, and work without network, starts neither the proxy nor a trial."""
    network_client.close()
    hands.run("ls", asker=None)
    hands.facts["settings"]["terminal"]["network"] = False
    hands.run("echo x > y", WORK)
    assert network_client.pid is None
    hands.facts["settings"]["terminal"]["network"] = True
    hands.run("true", WORK)
    wait_until(lambda: network_client.pid is not None)


def test_a_proxy_that_dies_is_started_again(hands: Hands, site: ThreadingHTTPServer) -> None:
    """A command that is running then reaches nothing; the next one has a new proxy."""
    hands.run("true", WORK)
    wait_until(lambda: bool(network_client.pid))
    first = network_client.pid
    assert first is not None
    command = f"touch started; until [ -e go ]; do sleep 0.02; done; curl -sS {address(site)}"
    running = hands.process("start", command=command, level="work")["id"]
    folder = Path(hands.facts["folder"])
    wait_until(lambda: (folder / "started").exists())
    os.kill(first, signal.SIGKILL)
    wait_until(lambda: network_client.pid is None)
    (folder / "go").touch()
    assert "hello" not in hands.process("wait", id=running, seconds=30)["output"]
    assert hands.run(f"curl -sS {address(site)}", WORK)["output"] == "hello"
    assert network_client.pid != first


HOLDER = """
import json, sys, threading, time
from pathlib import Path
from commands import Hands
from tools.shell.network_client import network_client
hands = Hands("held", Path(sys.argv[1]), "bubblewrap")
command = "readlink /proc/self/ns/net >network; mv network here; sleep 300"
threading.Thread(target=hands.run, args=(command, {"level": "work"}), daemon=True).start()
while not (Path(sys.argv[1]) / "here").exists() or not network_client.pid:
    time.sleep(0.02)
print(json.dumps(network_client.pid), flush=True)
time.sleep(300)
"""


def test_nothing_is_left_when_hermes_is_killed(tmp_path: Path) -> None:
    """F1, G5: neither the proxy nor a porter, nor the network."""
    work = tmp_path / "work"
    work.mkdir()
    support = str(Path(__file__).parents[1] / "support")
    env = {**os.environ, "PYTHONPATH": os.pathsep.join([support, *sys.path])}
    words = [sys.executable, "-c", HOLDER, str(work)]
    with subprocess.Popen(words, stdout=subprocess.PIPE, env=env) as hermes:
        assert hermes.stdout is not None
        helper = json.loads(hermes.stdout.readline())
        network = (work / "here").read_text().strip()
        assert find_users(network)
        hermes.kill()
    wait_until(lambda: not Path(f"/proc/{helper}").exists())
    wait_until(lambda: not find_users(network))
    wait_until(lambda: not find_helpers(str(work)))


def find_helpers(mark: str) -> list[str]:
    found = []
    for entry in Path("/proc").iterdir():
        try:
            words = (entry / "cmdline").read_bytes() if entry.name.isdigit() else b""
        except OSError:
            continue
        if mark.encode() in words:
            found.append(entry.name)
    return found


def test_the_end_of_a_command_is_the_end_of_its_port(hands: Hands, site: ThreadingHTTPServer) -> None:
    """F1: descriptors of the proxy are back where they were."""
    hands.run(f"curl -sS {address(site)}", WORK)
    guard = network_client.pid
    helper = Path(f"/proc/{guard}/task/{guard}/children").read_text().split()[0]

    def count() -> int:
        return len(os.listdir(f"/proc/{helper}/fd"))

    wait_until(lambda: count() <= 9)
    before = count()
    for _ in range(3):
        hands.run(f"curl -sS {address(site)}; (sleep 300 & ) ; true", WORK)
    wait_until(lambda: count() <= before)
    assert not list(Path(shell_of(hands.context()).folder).glob("refused-*"))


# Where the network cannot be led through the proxy


@pytest.fixture
def unfiltered(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (sandbox, shells, command_gate):
        monkeypatch.setattr(module, "find_filter_problem", lambda _: "no port can be opened")


def test_without_the_proxy_nothing_reaches_the_network_unasked(
    hands: Hands, site: ThreadingHTTPServer, unfiltered: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """G4, G5: work runs without it; what uses it asks, each time, and the question says why."""
    hands.facts["settings"]["approvals"] = {"mode": "auto"}
    (Path(hands.facts["folder"]) / "call.py").write_text(
        f"import socket; socket.create_connection(('127.0.0.1', {site.server_port}))"
    )
    assert hands.run("python3 call.py", WORK, asker=None)["exit_code"] != 0
    for _ in range(2):
        person = Person()
        assert hands.run(f"curl -sS {address(site)}", asker=person)["output"] == "hello"
        (question,) = person.asked
        assert "no port can be opened" in str(question)
        assert "all that it reaches" in str(question)
        assert question.deed is None
    hands.run("true", {"level": "setup"}, asker=person)  # another rule than where the proxy stands
    kept = person.asked[-1].deed
    assert kept is not None
    assert "open network" in kept.level
    with pytest.raises(ToolFailure, match="not run"):
        hands.run(f"curl -sS {address(site)}", asker=None)


def test_doctor_and_status_say_which_holds(hands: Hands, monkeypatch: pytest.MonkeyPatch) -> None:
    """G5"""
    settings = hands.context().settings
    assert "through a proxy alone" in sandbox.describe_walls(settings)[1]
    hands.facts["settings"]["terminal"]["network"] = False
    assert "no network" in sandbox.describe_walls(hands.context().settings)[1]
    monkeypatch.setattr(sandbox, "find_filter_problem", lambda _: "no port can be opened")
    assert "asks each time" in sandbox.describe_walls(settings)[1]
