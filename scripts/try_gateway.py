"""Waits until a gateway that was just started is ready, asks it one thing over its API, and prints the answer.

try_gateway.py OUTPUT    what `hermes gateway run` prints is being written to this file; HERMES_HOME is its home
"""

import json
import re
import subprocess
import sys
import time
import urllib.error
import urllib.request
from pathlib import Path

PATIENCE = 180.0  # a first start installs what is missing
ADDRESS = re.compile(r"The page: http://\S+")
WITH_TOKEN = re.compile(r"(http://\S+?)/\?token=(\S+)")


def find_address(output: Path) -> tuple[str, str]:
    """The page's address as it was printed, and the owner's token, which is told by `hermes web` alone."""
    end = time.monotonic() + PATIENCE
    while time.monotonic() < end:
        if output.exists() and ADDRESS.search(output.read_text(errors="replace")):
            hermes = Path(sys.executable).with_name("hermes")
            told = subprocess.run([hermes, "web"], capture_output=True, text=True, check=True).stdout
            found = WITH_TOKEN.search(told)
            if found:
                return found[1], found[2]
        time.sleep(0.1)
    raise SystemExit(f"No address was printed:\n{output.read_text(errors='replace')}")


def wait_ready(address: str) -> None:
    end = time.monotonic() + PATIENCE
    while time.monotonic() < end:
        try:
            with urllib.request.urlopen(f"{address}/ready", timeout=5) as answer:
                print(f"{address}/ready: {answer.status}")
                return
        except (urllib.error.URLError, OSError):
            time.sleep(0.1)
    raise SystemExit("The gateway was not ready in time.")


def ask(address: str, token: str, text: str) -> str:
    body = json.dumps({"model": "hermes", "messages": [{"role": "user", "content": text}]}).encode()
    headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/json"}
    request = urllib.request.Request(f"{address}/v1/chat/completions", body, headers)
    with urllib.request.urlopen(request, timeout=PATIENCE) as answer:
        said: str = json.load(answer)["choices"][0]["message"]["content"]
    return said


def main() -> None:
    address, token = find_address(Path(sys.argv[1]))
    wait_ready(address)
    said = ask(address, token, "Name one colour.")
    print(f"Asked for a colour, it answered: {said}")
    if not said.strip():
        raise SystemExit("The answer was empty.")


if __name__ == "__main__":
    main()
