"""A house with a second app beside the pretend one, so that one person can be in both."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from house import ACCOUNT, House, Visitor
from waiting import wait_until

from gateway.platforms import platform_list
from gateway.platforms.pretend.adapter import PretendAdapter, describe
from gateway.platforms.pretend.service import PretendRules, PretendService
from hermes_base.inbound import Address

OTHER = "other"


class OtherAdapter(PretendAdapter):
    """The same service under another name."""

    def __init__(self, account: str, settings: Any, home: Path) -> None:
        super().__init__(account, settings, home)
        self.spec = replace(self.spec, name=OTHER, label="Other")


class OtherHouse:
    """The house as somebody in the second app sees it."""

    def __init__(self, house: House, service: PretendService) -> None:
        self._house = house
        self.service = service

    def __getattr__(self, name: str) -> Any:
        return getattr(self._house, name)

    def wait_quiet(self, seconds: float = 20.0) -> None:
        self._house.wait_quiet(seconds)


class OtherVisitor(Visitor):
    @property
    def conversation(self) -> str:
        return Address(OTHER, ACCOUNT, self.chat, self.kind).conversation(self.house.gateway.parts.profile)


class TwoApps(House):
    def __init__(self, home: Path, base_url: str, **settings: Any) -> None:
        self.other_service = PretendService(PretendRules())
        other = {OTHER: {"enabled": True, "account": ACCOUNT, **settings.pop(OTHER, {})}}
        super().__init__(home, base_url, platforms={**settings.pop("platforms", {}), **other}, **settings)

    def start(self) -> None:
        spec = replace(describe(self.other_service.rules), name=OTHER, label="Other")
        service = self.other_service
        platform_list.register(
            spec, lambda account, given, home: OtherAdapter(account, {**given, "service": service}, home)
        )
        super().start()

    def there(self, sender: str, chat: str = "", kind: str = "dm", name: str = "") -> OtherVisitor:
        """Somebody in the second app."""
        house: Any = OtherHouse(self, self.other_service)
        return OtherVisitor(house, sender, chat or f"there-{sender}", kind, name or sender.title())

    def wait_quiet(self, seconds: float = 20.0) -> None:
        wait_until(lambda: not self.other_service.updates, seconds)
        super().wait_quiet(seconds)


@contextmanager
def two_apps(home: Path, base_url: str, **settings: Any) -> Iterator[TwoApps]:
    try:
        with TwoApps(home, base_url, **settings) as house:
            yield house
    finally:
        platform_list.unregister(OTHER)
