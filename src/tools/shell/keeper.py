"""The keeper's own program: it starts every command, and when Hermes is gone it ends every one of their descendants.

Run as `python -I -S keeper.py <socket descriptor> <scratch folder>`; it imports nothing of Hermes.

Each command gets a guard, a fork of the keeper that adopts whatever the command leaves behind (daemons too), so that
the whole tree of one command can be ended without touching another. A guard ends its tree when it is told to, when
its command has ended, and when the keeper is gone.

What makes the network of a task gets a porter, too: a fork of the guard that goes into that network, opens one port
there, and sends the network and the socket out. The commands of the task go into that network before they become the
sandbox program. The guard of each holds a lifeline, whose end says that nothing of the command is left.
"""

import ctypes
import fcntl
import json
import os
import select
import shutil
import signal
import socket
import sys
import termios
import time
from typing import Any

PR_SET_CHILD_SUBREAPER = 36
CLONE_NEWUSER, CLONE_NEWNET, NS_GET_USERNS = 0x10000000, 0x40000000, 0xB701
ARGUMENTS_FD = 3  # where the sandbox program reads its arguments, and closes it before it starts the command
INFO_FD, BLOCK_FD = 4, 5  # where it says which process it made, and where it waits for the porter; closed, too
PROXY_PORT = 3128  # in the network of a command
MOST_WAITING = 128  # connections that nobody has taken yet
STARTING_FDS, MOST_FDS = 2, 4  # that come with an order: input and output, and what it names beside them
PORTER, NETWORK, LIFELINE = "porter", "network", "lifeline"
LEFTOVER_SECONDS = 0.2  # for what is about to end by itself when the command has, such as a `tee` behind it
TICK_SECONDS = 0.01
READ_BYTES = 65536
SHELL_SIGNAL_BASE = 128
NOT_FOUND = 127
NEVER_ASKED = {"bwrap"}  # it would end at once and take the command along, before that could tidy up
IGNORED = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT)
RESTORED = (signal.SIGPIPE, signal.SIGXFSZ, signal.SIGCHLD)  # what Python has set for itself


def adopt_orphans() -> None:
    if ctypes.CDLL(None, use_errno=True).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "cannot become the parent of orphans")


def watch_children() -> int:
    """A descriptor that becomes readable when a child has ended."""
    readable, writable = os.pipe()
    os.set_blocking(readable, False)
    os.set_blocking(writable, False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    signal.set_wakeup_fd(writable, warn_on_full_buffer=False)
    return readable


def drain(descriptor: int) -> None:
    try:
        while os.read(descriptor, READ_BYTES):
            pass
    except BlockingIOError:
        return


def reap() -> tuple[dict[int, int], bool]:
    """Exit codes of the children that ended, and whether there are any others."""
    codes: dict[int, int] = {}
    while True:
        try:
            pid, status = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return codes, False
        if pid == 0:
            return codes, True
        code = os.waitstatus_to_exitcode(status)
        codes[pid] = code if code >= 0 else SHELL_SIGNAL_BASE - code


def list_descendants(root: int, spared: frozenset[int] = frozenset()) -> dict[int, str]:
    """Everything below a process, with its name (none: it is dead already); the trees of the spared are left out."""
    children: dict[int, list[tuple[int, str]]] = {}
    for entry in os.listdir("/proc"):
        if not entry.isdigit():
            continue
        try:
            with open(f"/proc/{entry}/stat", "rb") as file:
                head, _, tail = file.read().rpartition(b")")
        except OSError:
            continue  # it ended while we looked
        state, parent = tail.split()[:2]
        name = head.partition(b"(")[2].decode("utf-8", "replace") if state != b"Z" else ""
        children.setdefault(int(parent), []).append((int(entry), name))
    found: dict[int, str] = {}
    waiting = [root]
    while waiting:
        for pid, name in children.get(waiting.pop(), ()):
            if pid not in spared and pid not in found:
                found[pid] = name
                waiting.append(pid)
    return found


def send_signal(pid: int, number: int) -> None:
    try:
        os.kill(pid, number)
    except (ProcessLookupError, PermissionError):
        return  # gone, or set-uid and not ours to end


class ProcessGuard:
    """Runs one command and answers for everything that comes out of it."""

    def __init__(self, order: dict[str, Any], fds: list[int], control: int) -> None:
        self.code: int | None = None
        self.control = control
        adopt_orphans()
        self.wake = watch_children()
        given = dict(zip(order["given"], fds[STARTING_FDS:], strict=True))
        self.lifeline = given.pop(LIFELINE, -1)  # stays open until we are gone
        told, tells, waits, releases = (*os.pipe(), *os.pipe()) if PORTER in given else (-1, -1, -1, -1)
        self.child = fork_askable()
        if self.child == 0:
            placed = {INFO_FD: tells, BLOCK_FD: waits} if PORTER in given else {}
            run_command(order, fds[:STARTING_FDS], placed, given.get(NETWORK, -1))
        if PORTER in given and fork_askable() == 0:
            close_others(frozenset({told, releases, given[PORTER]}))
            open_port(told, given[PORTER])
        for fd in (*fds[:STARTING_FDS], *given.values(), told, tells, waits, releases):
            if fd >= 0:
                os.close(fd)

    def keep(self) -> int:
        """Until the command has ended, by itself or because it had to; then nothing of it is left."""
        poll = select.poll()
        poll.register(self.wake, select.POLLIN)
        poll.register(self.control, select.POLLIN)
        while self.code is None:
            ready = {fd for fd, _ in poll.poll()}
            if self.control in ready:
                grace = os.read(self.control, 64)  # how long it may take; nothing: the keeper is gone, and no time
                self.end_tree(float(grace.split()[-1]) if grace else 0.0)
            drain(self.wake)
            self.reap()
        self.wait_for_end(LEFTOVER_SECONDS)
        self.end_tree(0)
        return self.code

    def reap(self) -> bool:
        """Whether anything of the tree is left: orphans come to us, so without children there is nothing."""
        codes, left = reap()
        self.code = codes.get(self.child, self.code)
        return left

    def wait_for_end(self, seconds: float) -> bool:
        deadline = time.monotonic() + seconds
        poll = select.poll()
        poll.register(self.wake, select.POLLIN)
        while self.reap():
            left = deadline - time.monotonic()
            if left <= 0:
                return False
            poll.poll(left * 1000)
            drain(self.wake)
        return True

    def end_tree(self, grace: float) -> None:
        """Ask everything to end, then make it end, until nothing is left."""
        if grace > 0:
            for pid, name in list_descendants(os.getpid()).items():
                if name not in NEVER_ASKED:
                    send_signal(pid, signal.SIGTERM)
            self.wait_for_end(grace)
        while self.reap():
            for pid in list_descendants(os.getpid()):
                send_signal(pid, signal.SIGKILL)
            time.sleep(TICK_SECONDS / 2)


def fork_askable() -> int:
    """Fork a child that a SIGTERM ends from its first moment on, while this process goes on ignoring it."""
    signal.pthread_sigmask(signal.SIG_BLOCK, IGNORED)
    for number in IGNORED:
        signal.signal(number, signal.SIG_DFL)
    pid = os.fork()
    if pid != 0:
        for number in IGNORED:
            signal.signal(number, signal.SIG_IGN)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, IGNORED)
    return pid


def open_port(told: int, line: int) -> None:
    """Be the porter of the network of a program that waits for it: send it out, and the one port in it. Never
    returns; with its end the program goes on."""
    try:
        with socket.socket(fileno=line) as out:
            try:
                with open(told, "rb") as info:
                    network = os.open(f"/proc/{int(json.load(info)['child-pid'])}/ns/net", os.O_RDONLY)
                enter_network(network)
                with socket.socket() as listener:
                    listener.bind(("0.0.0.0", PROXY_PORT))
                    listener.listen(MOST_WAITING)
                    socket.send_fds(out, [b"+"], [network, listener.fileno()])
            except (OSError, ValueError, KeyError) as problem:
                out.send(str(problem).encode() or b"?")
    finally:
        os._exit(0)


def enter_network(network: int) -> None:
    """Go into a network, which must be another one than ours. Whoever is not root has all rights over it then, and
    loses them with the program that it becomes."""
    if os.path.samestat(os.fstat(network), os.stat("/proc/self/ns/net")):
        raise OSError("it has no network of its own")
    owner = fcntl.ioctl(network, NS_GET_USERNS)
    c_library = ctypes.CDLL(None, use_errno=True)
    is_ours = os.path.samestat(os.fstat(owner), os.stat("/proc/self/ns/user"))
    for space, kind in ((owner, CLONE_NEWUSER), (network, CLONE_NEWNET)):
        if not (space == owner and is_ours) and c_library.setns(space, kind) != 0:
            raise OSError(ctypes.get_errno(), "cannot go into the network of a task")


def run_command(order: dict[str, Any], fds: list[int], placed: dict[int, int], network: int) -> None:
    """Become the command, in a session of its own, with descriptors at their places. Never returns."""
    try:
        os.setsid()
        if order["joins"]:  # or not at all: without a network that it was given there is none that it may be in
            enter_network(network)
        signal.set_wakeup_fd(-1)
        for number in RESTORED:
            signal.signal(number, signal.SIG_DFL)
        stdin, output = fds
        for source, target in ((stdin, 0), (output, 1), (output, 2)):
            os.dup2(source, target)
        high = {target: fcntl.fcntl(source, fcntl.F_DUPFD, BLOCK_FD + 1) for target, source in placed.items()}
        for target, source in high.items():
            os.dup2(source, target)
        close_others(frozenset({0, 1, 2, *placed}))
        if order["arguments"]:
            hand_over(order["arguments"])
        if order["pty"]:
            fcntl.ioctl(0, termios.TIOCSCTTY, 0)
        os.chdir(order["cwd"])
        here = os.stat(".")
        if order["place"] and [here.st_dev, here.st_ino] != order["place"]:
            raise OSError("its folder is another one than was shown")
        os.execvpe(order["argv"][0], order["argv"], order["env"])
    except OSError as problem:
        os.write(2, f"cannot run {order['argv'][0]}: {problem}\n".encode())
    finally:
        os._exit(NOT_FOUND)


def hand_over(arguments: list[str]) -> None:
    """Arguments that no other user of the machine can read in the list of processes: variables are among them."""
    source = os.memfd_create("arguments", 0)
    if source != ARGUMENTS_FD:
        os.dup2(source, ARGUMENTS_FD)
        os.close(source)
    os.write(ARGUMENTS_FD, b"".join(os.fsencode(word) + b"\0" for word in arguments))
    os.lseek(ARGUMENTS_FD, 0, os.SEEK_SET)


class Keeper:
    """Takes orders from the socket, one JSON object a line, and reports what ended."""

    def __init__(self, sock: socket.socket) -> None:
        self.sock = sock
        self.guards: dict[int, tuple[int, int]] = {}  # process of the guard: id of the order, its control pipe
        self.text = b""
        self.fds: list[int] = []
        self.wake = watch_children()

    def serve(self) -> None:
        poll = select.poll()
        poll.register(self.sock, select.POLLIN)
        poll.register(self.wake, select.POLLIN)
        while True:
            ready = {fd for fd, _ in poll.poll()}
            if self.wake in ready:
                drain(self.wake)
                self.report_ended()
            if self.sock.fileno() in ready and not self.read_orders():
                return

    def read_orders(self) -> bool:
        """False at the end of the file: Hermes is gone."""
        try:
            text, fds, _, _ = socket.recv_fds(self.sock, READ_BYTES, MOST_FDS)
        except ConnectionError:
            return False
        self.fds += fds
        self.text += text
        *lines, self.text = self.text.split(b"\n")
        for line in lines:
            order = json.loads(line)
            {"start": self.start, "end": self.end}[order["do"]](order)
        return bool(text)

    def start(self, order: dict[str, Any]) -> None:
        number = STARTING_FDS + len(order["given"])
        fds, self.fds = self.fds[:number], self.fds[number:]
        theirs, ours = os.pipe()
        try:
            pid = os.fork()
        except OSError as problem:  # too many processes: this command fails, the others go on
            os.write(fds[1], f"cannot start a process: {problem}\n".encode())
            self.report(id=order["id"], exit=NOT_FOUND)
            os.close(ours)
        else:
            if pid == 0:
                self.become_guard(order, fds, theirs)
            self.guards[pid] = order["id"], ours
            self.report(id=order["id"], pid=pid)
        for fd in (*fds, theirs):
            os.close(fd)

    def become_guard(self, order: dict[str, Any], fds: list[int], control: int) -> None:
        """Let go of everything of the keeper's, or the end of a pipe would never be seen. Never returns."""
        code = NOT_FOUND
        try:
            close_others(frozenset({0, 1, 2, *fds, control}))
            code = ProcessGuard(order, fds, control).keep()
        finally:
            os._exit(code)

    def end(self, order: dict[str, Any]) -> None:
        for id, control in self.guards.values():
            if id == order["id"]:
                try:
                    os.write(control, f"{order['grace']} ".encode())
                except BrokenPipeError:
                    return  # it has ended by itself, which is reported soon

    def report_ended(self) -> None:
        codes, left = reap()
        for pid, code in codes.items():
            if pid in self.guards:
                id, control = self.guards.pop(pid)
                os.close(control)
                self.report(id=id, exit=code)
        if left and self.has_strangers():
            for pid in list_descendants(os.getpid(), frozenset(self.guards)):
                send_signal(pid, signal.SIGKILL)

    def has_strangers(self) -> bool:
        """What comes to the keeper itself has lost its guard (somebody killed that)."""
        try:
            with open(f"/proc/self/task/{os.getpid()}/children", "rb") as file:
                return any(int(pid) not in self.guards for pid in file.read().split())
        except OSError:
            return True  # this kernel does not tell, so look closely

    def report(self, **facts: Any) -> None:
        try:
            self.sock.sendall(json.dumps(facts).encode() + b"\n")
        except OSError:
            return  # Hermes is gone; the end of the file is seen next

    def end_everything(self) -> None:
        """The guards see the end of their pipes and end their trees; the rest is ended here."""
        for _, control in self.guards.values():
            os.close(control)
        while reap()[1]:
            for pid in list_descendants(os.getpid(), frozenset(self.guards)):
                send_signal(pid, signal.SIGKILL)
            time.sleep(TICK_SECONDS)


def close_others(kept: frozenset[int]) -> None:
    for name in os.listdir("/proc/self/fd"):
        if int(name) not in kept:
            try:
                os.close(int(name))
            except OSError:
                continue  # the listing's own descriptor, closed already


def remove_folder(folder: str) -> None:
    for place, _, _ in os.walk(folder):
        try:
            os.chmod(place, 0o700)  # some programs keep what they fetched read-only
        except OSError:
            continue
    shutil.rmtree(folder, ignore_errors=True)  # what is not ours to remove stays, and the folder with it


def main() -> None:
    for number in IGNORED:
        signal.signal(number, signal.SIG_IGN)
    adopt_orphans()
    keeper = Keeper(socket.socket(fileno=int(sys.argv[1])))
    try:
        keeper.serve()
    finally:
        keeper.end_everything()
        remove_folder(sys.argv[2])


if __name__ == "__main__":
    main()
