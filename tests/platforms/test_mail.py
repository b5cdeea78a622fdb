"""E-mail by the suite that every platform passes, with Dovecot and a real SMTP server as the other side."""

from collections.abc import Iterator
from contextlib import AbstractAsyncContextManager
from pathlib import Path

import pytest
from mail_peer import MailHouse
from mail_rig import open_mail_rig
from platform_suite import PlatformSuite, Rig


class TestMail(PlatformSuite):
    house: MailHouse

    @pytest.fixture(scope="class", autouse=True)
    @classmethod
    def _house(cls) -> Iterator[None]:
        with MailHouse() as cls.house:
            yield

    def open_rig(self, tmp_path: Path) -> AbstractAsyncContextManager[Rig]:
        return open_mail_rig(self.house, tmp_path)
