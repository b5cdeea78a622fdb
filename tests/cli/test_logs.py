"""H9: the log of the gateway: what a line holds, how files follow each other, and how it is read back."""

import contextlib
import json
import logging
import os
import resource
import socket
import stat
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from gateway_process import GatewayProcess
from hypothesis import given
from hypothesis import strategies as st
from waiting import wait_until
from web_house import find_free_port

from hermes_base.turn.cancel import CancelToken
from hermes_base.turn.turn_context import TurnContext, current_turn
from hermes_cli import config
from hermes_cli.config import logs
from hermes_cli.config.logs import JsonLines, LogFile, keep_log, log_path, parse_line, read_tail, set_level, write_line
from hermes_cli.main import main
from hermes_lab.server import LabServer

log = logging.getLogger("gateway.tests")


def read(home: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in log_path(home).read_text().splitlines()]


def make_record(message: str) -> logging.LogRecord:
    return logging.LogRecord("gateway", logging.INFO, "", 0, message, None, None)


@contextmanager
def open_file(path: Path, limit: int, files: int) -> Iterator[LogFile]:
    handler = LogFile(path, limit, files)
    handler.setFormatter(JsonLines())
    try:
        yield handler
    finally:
        handler.close()


# --- a line


def test_a_line_names_its_turn(home: Path) -> None:
    """H9: on a turn's thread from its context, elsewhere as it is given; nothing where there is none."""
    with keep_log(home):
        token = current_turn.set(TurnContext(CancelToken(), conversation="agent:main:local:dm:a", turn="t1"))
        log.info("in a turn", extra={"provider": "lab"})
        current_turn.reset(token)
        log.info("of a lane", extra={"conversation": "agent:main:local:dm:b"})
        log.info("of nobody")
    first, second, third = read(home)
    assert (first["conversation"], first["turn"], first["provider"]) == ("agent:main:local:dm:a", "t1", "lab")
    assert second["conversation"] == "agent:main:local:dm:b"
    assert set(third) == {"time", "level", "logger", "message"}
    assert (third["level"], third["logger"]) == ("info", "gateway.tests")


def test_a_trace_is_one_line_without_secrets(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """G6"""
    monkeypatch.setenv("SOME_API_KEY", "canary-canary-1")
    with keep_log(home):
        try:
            raise RuntimeError("canary-canary-1 in an error")
        except RuntimeError:
            log.exception("it broke with canary-canary-1")
    [line] = read(home)
    assert "canary-canary-1" not in log_path(home).read_text()
    assert "Traceback" in line["trace"]
    assert "[redacted SOME_API_KEY] in an error" in line["trace"]
    assert "    Traceback" in write_line(json.dumps(line))


@pytest.mark.parametrize(("level", "is_brief"), [("warning", True), ("debug", False)])
def test_who_chats_sees_no_trace(
    level: str, is_brief: bool, home: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """H3: the reason in one line; the trace is in the file, and all of it stands there once somebody wants it."""
    monkeypatch.setattr(logging.getLogger(), "handlers", [])
    home.mkdir(exist_ok=True)
    (home / "config.yaml").write_text(f"log: {{level: {level}}}")
    config.start_logging()
    before = logging.getLogger().handlers[0].formatter
    with keep_log(home, brief=True):
        try:
            raise RuntimeError("no luck")
        except RuntimeError:
            log.exception("it broke")
    said = capsys.readouterr().err
    assert ("Traceback" not in said) == is_brief
    assert ("ERROR gateway.tests: it broke (RuntimeError: no luck; the trace: hermes logs)\n" in said) == is_brief
    assert "Traceback" in read(home)[-1]["trace"]
    assert logging.getLogger().handlers[0].formatter is before


def test_the_file_is_the_owners(home: Path) -> None:
    """G6"""
    with keep_log(home):
        log.info("x")
    assert stat.S_IMODE(log_path(home).stat().st_mode) == 0o600
    assert stat.S_IMODE(log_path(home).parent.stat().st_mode) == 0o700


def test_what_the_file_and_the_terminal_hold(home: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """H9: the setting rules the terminal; the file has our `info`, and everything with `debug`."""
    code = (
        "import logging; from pathlib import Path; from hermes_cli import config; from hermes_cli.config import logs\n"
        "config.start_logging()\n"
        f"with logs.keep_log(Path({str(home)!r})):\n"
        "    for round in ('first', 'second'):\n"
        "        for name in ('gateway.x', 'httpx'):\n"
        "            for level in ('debug', 'info', 'warning'):\n"
        "                getattr(logging.getLogger(name), level)('%s %s %s', round, name, level)\n"
        "        logs.set_level('debug' if round == 'first' else 'error')\n"
    )
    home.mkdir()
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True)
    said = [line["message"] for line in read(home)]
    assert said[:3] == ["first gateway.x info", "first gateway.x warning", "first httpx warning"]
    assert len(said) == 3 + 6
    assert done.stderr.splitlines()[:2] == [
        "WARNING gateway.x: first gateway.x warning",
        "WARNING httpx: first httpx warning",
    ]
    assert len(done.stderr.splitlines()) == 2 + 6


def test_levels_are_as_before_afterwards(home: Path) -> None:
    before = [(name, logging.getLogger(name).level) for name in ("", "gateway", "agent")]
    with keep_log(home):
        set_level("debug")
        assert logging.getLogger("gateway").level == logging.DEBUG
    assert [(name, logging.getLogger(name).level) for name, _ in before] == before


def test_a_log_that_cannot_be_written_stops_nobody(home: Path, caplog: pytest.LogCaptureFixture) -> None:
    """H8"""
    home.mkdir()
    (home / "logs").write_text("in the way")
    with keep_log(home):
        log.warning("still here")
    assert "There is no log" in caplog.text


# --- files


@given(st.lists(st.integers(1, 300), max_size=60), st.integers(200, 2000))
def test_no_line_is_lost_when_a_new_file_begins(
    tmp_path_factory: pytest.TempPathFactory, sizes: list[int], limit: int
) -> None:
    """H9: read from the end through all files, every line is there once, in order; no file is larger than allowed."""
    path = tmp_path_factory.mktemp("log") / "gateway.log"
    with open_file(path, limit, 200) as handler:
        for number, size in enumerate(sizes):
            handler.handle(make_record(f"{number} " + "x" * size))
    lines = read_tail(path, 1000)
    assert [int(parse_line(line)["message"].split()[0]) for line in lines] == list(range(len(sizes)))
    for file in path.parent.iterdir():
        assert file.stat().st_size <= limit or file.read_text().count("\n") == 1


def test_only_so_many_files_are_kept(tmp_path: Path) -> None:
    path = tmp_path / "gateway.log"
    with open_file(path, 300, 3) as handler:
        for number in range(50):
            handler.handle(make_record(f"{number} " + "x" * 100))
    assert sorted(file.name for file in tmp_path.iterdir()) == ["gateway.log", *(f"gateway.log.{n}" for n in (1, 2, 3))]
    assert parse_line(read_tail(path, 1)[0])["message"].startswith("49 ")


def test_threads_write_whole_lines(tmp_path: Path) -> None:
    """H9: many at once, over many changes of files."""
    path = tmp_path / "gateway.log"
    with open_file(path, 5000, 1000) as handler:

        def write(thread: int) -> None:
            for number in range(200):
                handler.handle(make_record(f"{thread}.{number}"))

        threads = [threading.Thread(target=write, args=(number,)) for number in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    found = [json.loads(line)["message"] for line in read_tail(path, 10_000)]
    assert sorted(found) == sorted(f"{thread}.{number}" for thread in range(8) for number in range(200))


def test_another_process_began_a_new_file(tmp_path: Path) -> None:
    """Both go on in the same file, and nothing is moved twice."""
    path = tmp_path / "gateway.log"
    with open_file(path, 400, 9) as one, open_file(path, 400, 9) as two:
        for number in range(12):
            (one if number % 2 else two).handle(make_record(f"{number} " + "x" * 100))
    found = [int(parse_line(line)["message"].split()[0]) for line in read_tail(path, 100)]
    assert sorted(found) == list(range(12))


def test_a_full_disk_is_told_when_there_is_room_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """F7: /dev/full takes nothing; afterwards the log says how much it lacks."""
    path = tmp_path / "gateway.log"
    with open_file(path, 10_000, 2) as handler:
        handler.handle(make_record("before"))
        kept = os.dup(handler._file)
        full = os.open("/dev/full", os.O_WRONLY)
        os.dup2(full, handler._file)
        handler.handle(make_record("lost"))
        handler.handle(make_record("lost too"))
        os.dup2(kept, handler._file)
        os.close(full)
        os.close(kept)
        handler.handle(make_record("after"))
        handler.handle(make_record("later"))
    said = [parse_line(line)["message"] for line in read_tail(path, 10)]
    assert said == ["before", "2 lines of the log were lost: No space left on device.", "after", "later"]


# --- reading


def test_the_end_is_read_without_the_beginning(tmp_path: Path) -> None:
    """F5: a large file costs what is asked for."""
    path = tmp_path / "gateway.log"
    with path.open("w") as file:
        file.seek(2**33)  # a hole: reading it all would take minutes
        file.write("\n" + "\n".join(f'{{"message": "{number}"}}' for number in range(100)) + "\n")
    assert [parse_line(line)["message"] for line in read_tail(path, 3)] == ["97", "98", "99"]


def test_the_command_shows_filters_and_follows(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["logs"]) == 1
    assert "no log yet" in capsys.readouterr().err
    with keep_log(home):
        log.info("quiet", extra={"conversation": "agent:main:local:dm:a"})
        log.warning("loud", extra={"conversation": "agent:main:local:dm:b"})
    assert main(["logs"]) == 0
    out = capsys.readouterr().out
    assert "INFO gateway.tests: quiet [conversation=agent:main:local:dm:a]" in out
    assert main(["logs", "--level", "warning"]) == 0
    assert "quiet" not in capsys.readouterr().out
    assert main(["logs", "--conversation", "dm:a", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["message"] == "quiet"
    assert main(["logs", "-n", "1"]) == 0
    assert "quiet" not in capsys.readouterr().out


def test_following_goes_through_a_change_of_files(home: Path) -> None:
    """H9: nothing is skipped when a new file begins."""
    path = log_path(home)
    with open_file(path, 500, 50) as handler:
        handler.handle(make_record("old"))
        command = [sys.executable, "-m", "hermes_cli.main", "logs", "-f", "-n", "0", "--json"]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as reader:
            assert reader.stdout is not None
            heard: list[str] = []
            thread = threading.Thread(target=lambda: heard.extend(iter(reader.stdout.readline, "")))  # type: ignore[union-attr]
            thread.start()
            knock = 0
            while not heard:  # until it looks
                knock += 1
                handler.handle(make_record(f"knock {knock}"))
                threading.Event().wait(0.2)
            for number in range(20):
                handler.handle(make_record(f"line {number} " + "x" * 50))
                if number % 4 == 3:
                    wait_until(lambda number=number: any(f"line {number} " in one for one in heard))  # type: ignore[misc]
            reader.terminate()
            thread.join()
    numbers = [one.split("line ")[1].split()[0] for one in heard if "line " in one]
    assert numbers == [str(number) for number in range(20)]


def test_other_commands_write_no_log(home: Path) -> None:
    config.set_value("log.level", "info")
    assert main(["config", "get", "log.level"]) == 0
    assert not log_path(home).exists()


def test_the_first_line_comes_before_anything_heavy(home: Path) -> None:
    """F3: within half a second of the start: it is written before agent, store, web server and SDKs are loaded."""
    code = (
        "import sys, types\n"
        "from pathlib import Path\n"
        "def serve(home, note_ready):\n"
        "    heavy = {'openai', 'anthropic', 'starlette', 'uvicorn', 'sqlite3', 'asyncio', 'agent'}\n"
        "    print(sorted(heavy & set(sys.modules)), (home / 'logs' / 'gateway.log').read_text())\n"
        "    return 0\n"
        "module = types.ModuleType('gateway.app.foreground')\n"
        "module.run_gateway = serve\n"
        "sys.modules['gateway.app.foreground'] = module\n"
        "from hermes_cli.main import main\n"
        "sys.exit(main(['gateway', 'run']))\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True)
    heavy, line = done.stdout.split(" ", 1)
    assert heavy == "[]"
    assert " starts, process " in json.loads(line)["message"]


# --- floods


class Lines(logging.Handler):
    def __init__(self) -> None:
        super().__init__()
        self.lines: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.lines.append(record.getMessage())


def test_a_flood_is_cut_and_counted() -> None:
    """H9, F7: like lines of one place pass a few times a minute; other lines pass, and the rest is a number."""
    now = [0.0]
    handler = Lines()
    handler.addFilter(flood := logs.FloodFilter(handler, lambda: now[0]))

    def write(words: str, line: int, *args: object) -> None:
        handler.handle(logging.LogRecord("gateway", logging.WARNING, "a.py", line, words, args, None))

    for number in range(5_000):
        write("no descriptor for %s", 1, number)
    write("another place", 2)
    assert handler.lines[-2:] == [f"no descriptor for {logs.MOST_WARNINGS - 1}", "another place"]
    assert len(handler.lines) == logs.MOST_WARNINGS + 1
    now[0] += logs.ALIKE_SECONDS
    write("no descriptor for %s", 1, "later")
    left_out = f"{5_000 - logs.MOST_WARNINGS} more lines like this were left out: no descriptor for %s"
    assert handler.lines[-2:] == [left_out, "no descriptor for later"]
    for _ in range(logs.MOST_WARNINGS + 4):
        write("the end", 3)
    flood.tell_rest()
    assert handler.lines[-1] == "4 more lines like this were left out: the end"


@given(st.lists(st.tuples(st.integers(0, 3_000), st.integers(0, 90)), max_size=30))
def test_every_line_is_written_or_counted(rows: list[tuple[int, int]]) -> None:
    """H9: whatever comes in whatever time, nothing is lost without a number, and memory is bounded."""
    now = [0.0]
    handler = Lines()
    handler.addFilter(flood := logs.FloodFilter(handler, lambda: now[0]))
    for place, seconds in rows:
        now[0] += seconds
        for _ in range(30):
            handler.handle(logging.LogRecord("gateway", logging.WARNING, "a.py", place, "trouble", None, None))
    flood.tell_rest()
    counted = sum(int(line.split()[0]) for line in handler.lines if "left out" in line)
    assert counted + handler.lines.count("trouble") == 30 * len(rows)
    assert not flood._seen


def test_without_free_descriptors_the_log_stays_small(home: Path, lab: LabServer) -> None:
    """F7, H9: connections that cannot be taken are no flood in the log, and are taken when there is room again."""
    port = find_free_port()
    gateway = GatewayProcess(home, lab.base_url, web={"port": port})
    gateway.start()
    try:
        wait_until(lambda: answers(port))
        files = len(os.listdir(f"/proc/{gateway.pid}/fd")) + 5
        before = resource.prlimit(gateway.pid, resource.RLIMIT_NOFILE)
        resource.prlimit(gateway.pid, resource.RLIMIT_NOFILE, (files, before[1]))
        waiting = [socket.create_connection(("127.0.0.1", port)) for _ in range(60)]
        wait_until(lambda: "out of system resource" in gateway.log)
        looks = time.monotonic() + 3.5  # a look a second, and each one made thousands of lines
        wait_until(lambda: time.monotonic() > looks)
        written = len(gateway.log) + sum(file.stat().st_size for file in log_path(home).parent.iterdir())
        assert written < 300_000
        for sock in waiting:
            sock.close()
        resource.prlimit(gateway.pid, resource.RLIMIT_NOFILE, before)
        wait_until(lambda: answers(port))
    finally:
        gateway.kill()


def answers(port: int) -> bool:
    with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=5) as sock:
        sock.sendall(b"GET /health HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")
        return sock.recv(100).startswith(b"HTTP/1.1 200")
    return False


def test_what_a_plugin_notes_is_kept(home: Path) -> None:
    """A plugin's own `info` stands in the log, as that of the house does."""
    with keep_log(home):
        logging.getLogger("hermes_plugins.mine").info("noted by a plugin")
        logging.getLogger("_hermes_user_memory.mine").info("noted by a memory")
    assert "noted by a plugin" in log_path(home).read_text()
    assert "noted by a memory" in log_path(home).read_text()
