"""A disk that is really full, in a small file system of its own: intake stops with a sentence, nothing is lost (F7)."""

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from gateway_process import Person, wait_quiet
from stalling import THAW_SECONDS, StallingGateway
from waiting import wait_until

from hermes_lab.server import LabServer

MEGABYTE = 1024 * 1024
SIZE = 96 * MEGABYTE  # more than what has to be free for a message to be taken


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    place = tmp_path / "disk"
    place.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", f"size={SIZE}", "tmpfs", str(place)], capture_output=True, text=True, check=False
    )
    if mounted.returncode != 0:
        pytest.skip(f"a small file system cannot be mounted here: {mounted.stderr.strip()}")
    yield place
    subprocess.run(["umount", "--lazy", str(place)], check=True)


def fill(place: Path) -> Path:
    """Take every byte."""
    ballast = place / "ballast"
    with ballast.open("wb", buffering=0) as file:
        try:
            while file.write(bytes(MEGABYTE)):
                pass
        except OSError:
            pass
    return ballast


def test_a_full_disk_refuses_and_loses_nothing(small_disk: Path, lab: LabServer) -> None:
    """F7, C2: a turn was accepted before the disk was full; its answer comes when there is room again."""
    with StallingGateway(small_disk / "home", lab.base_url) as gateway:
        gateway.start()
        gateway.wait_probe()
        person, other = Person(gateway.home, "one"), Person(gateway.home, "two")
        accepted = person.say("[[stall 2]] [[say kept]]")
        wait_until(lambda: lab.in_flight == 1)
        ballast = fill(small_disk)
        wait_until(lambda: "disk" in gateway.ask_ready())
        refused = other.say("[[say too late]]")
        other.wait_refused(refused)
        wait_until(lambda: lab.in_flight == 0)
        assert gateway.ask_ready() != "ready"
        ballast.unlink()
        person.wait_dealt(accepted, seconds=THAW_SECONDS)
        person.wait_shown("kept")
        gateway.wait_probe()
        other.ask("[[say there is room]]", THAW_SECONDS)
        wait_quiet(gateway.home, [person])
        person.close()
        other.close()
