"""Looks every second whether something has changed for all gateways of the store, and has each topic followed (I4).

What is read anew with each message, such as who somebody is, needs no word; this is for what goes on meanwhile.
"""

from collections.abc import Awaitable, Callable, Mapping

from gateway.turns.threads import StoreFace
from hermes_state.sql.shared.news_sql import News

Follow = Callable[[], Awaitable[object]]


class NewsWatch:
    """On the event loop. `follow` says what to do about a topic; what fails is done again with the next look."""

    def __init__(self, news: News, call: StoreFace, follow: Mapping[str, Follow]) -> None:
        self._news = news
        self._call = call
        self._follow = follow
        self._seen: dict[str, int] = {}

    async def look(self) -> None:
        numbers = await self._call(self._news.numbers)
        for topic, follow in self._follow.items():
            number = numbers.get(topic, 0)
            if number != self._seen.get(topic, 0):
                await follow()
                self._seen[topic] = number
