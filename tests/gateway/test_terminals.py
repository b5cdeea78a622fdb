"""Two terminals and a third client in one conversation, while the gateway is killed and started again under them."""

import threading
import uuid
from pathlib import Path

import pytest
from gateway_process import GatewayProcess
from raw_client import RawClient
from waiting import wait_until

from hermes_base import local_wire as wire
from hermes_base.chat import Event, Said, TurnEnded
from hermes_base.local_wire import Hello
from hermes_cli.chat.joining import HomeGateway
from hermes_cli.chat.local_client import LocalClient
from hermes_lab.server import LabServer


class Terminal:
    """A terminal's client with a person who only reads."""

    def __init__(self, home: Path, conversation: str) -> None:
        self.seen: list[Event] = []
        self._joined = HomeGateway(home)
        hello = Hello(uuid.uuid4().hex, conversation=conversation)
        self.client = LocalClient(hello, self._joined.reach, self._joined.leave)
        self.client.open()
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self) -> None:
        for event in self.client.events():
            self.seen.append(event)

    @property
    def answers(self) -> list[str]:
        return [event.answer for event in list(self.seen) if isinstance(event, TurnEnded)]

    @property
    def heard(self) -> list[str]:
        return [event.text for event in list(self.seen) if isinstance(event, Said)]

    @property
    def hosts(self) -> bool:
        return self._joined.hosts


@pytest.mark.slow
def test_three_clients_go_on_when_the_gateway_is_killed(home: Path, lab: LabServer) -> None:
    """B3, B6, B8, C7, C9: serialised, and each sees every message and answer once, over three lives of the gateway."""
    process = GatewayProcess(home, lab.base_url, gateway={"busy": "queue"})
    process.start()
    third = RawClient(home, "third")
    conversation = str(third.welcome.conversation)
    terminals = [Terminal(home, conversation) for _ in range(2)]
    third.close()
    asked: list[str] = []
    try:
        for life in range(3):
            for number, terminal in enumerate(terminals):
                name = f"answer-{life}-{number}"
                asked.append(name)
                terminal.client.submit(f"[[stall 0.5]][[say {name}]]")
                wait_until(lambda: lab.in_flight > 0)  # what comes together would be one turn
            process.kill()
            process.start()
            wait_until(lambda: all(len(terminal.answers) >= len(asked) for terminal in terminals), 60)
    finally:
        for terminal in terminals:
            terminal.client.close()
        late = RawClient(home, "late", conversation=conversation, after=wire.Cursor())
        wait_until(lambda: len(late.answers()) >= len(asked))
        late.close()
        process.kill()
    for terminal in terminals:
        assert sorted(terminal.answers) == sorted(asked), process.log[-2000:]
        assert not terminal.hosts
    assert terminals[0].answers == terminals[1].answers
    assert len(terminals[0].heard) == len(terminals[1].heard) == len(asked) / 2
