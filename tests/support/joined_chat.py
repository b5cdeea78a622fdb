"""A chat as a process of its own: joins or hosts, submits each line of stdin, prints each event as a line of JSON."""

import json
import sys
import threading
from dataclasses import asdict
from pathlib import Path

from local_house import host_here

from hermes_base.local_wire import Hello
from hermes_cli.chat.joining import HomeGateway
from hermes_cli.chat.local_client import LocalClient


def main(home: Path, name: str, conversation: str) -> None:
    gateway = HomeGateway(home, host_here, patience=0.2)
    client = LocalClient(Hello(name, conversation=conversation), gateway.reach, gateway.leave)
    client.open()
    print(json.dumps({"event": "Opened", "hosts": gateway.hosts}), flush=True)
    threading.Thread(target=lambda: [client.submit(line.rstrip("\n")) for line in sys.stdin], daemon=True).start()
    for event in client.events():
        print(json.dumps({"event": type(event).__name__, **asdict(event), "hosts": gateway.hosts}), flush=True)
    client.close()


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2], sys.argv[3])
