"""The attacked gateway with a mailbox and a browser of its own; without servers of tools, whose words would be in sight
of every mail."""

import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest
from attack_mail import MailDesk
from attack_world import AttackWorld, open_attack_world
from mail_peer import MailHouse
from peer_ways import set_snares
from web_surfing import browser_of_file

from tools.shell.sandbox import is_bubblewrap_usable


@contextmanager
def open_peer_world(**settings: Any) -> Iterator[AttackWorld]:
    if not is_bubblewrap_usable():
        pytest.skip("bwrap does not run on this machine")
    with ExitStack() as closing:
        closing.enter_context(browser_of_file())
        desk = MailDesk(closing.enter_context(MailHouse()))
        folder = closing.enter_context(tempfile.TemporaryDirectory(prefix="hermes-attacks-", dir="/var/tmp"))
        platforms = {"mail": desk.section()}
        world = closing.enter_context(open_attack_world(Path(folder), platforms=platforms, mcp_servers={}, **settings))
        world.desk, world.mailed = desk, desk.mailed
        set_snares(world)
        yield world
