"""Pages that were fetched, by task and address, so that the model reads on without fetching again.

In memory and bounded: the pages that were read longest ago give way. They are forgotten with their task.
"""

import threading
from collections import OrderedDict
from dataclasses import dataclass

MOST_BYTES = 16 << 20


@dataclass(frozen=True, slots=True)
class KeptPage:
    url: str  # where it came from in the end
    host: str
    title: str
    text: str
    note: str = ""


class PageStore:
    def __init__(self, most_bytes: int = MOST_BYTES) -> None:
        self._most = most_bytes
        self._lock = threading.Lock()
        self._pages: OrderedDict[tuple[str, str], tuple[KeptPage, int]] = OrderedDict()
        self._bytes = 0

    def keep(self, task: str, url: str, page: KeptPage) -> None:
        size = len(page.text.encode("utf-8", "surrogatepass")) + 1_000
        with self._lock:
            self._drop((task, url))
            self._pages[task, url] = page, size
            self._bytes += size
            while self._bytes > self._most:
                self._drop(next(iter(self._pages)))

    def find(self, task: str, url: str) -> KeptPage | None:
        with self._lock:
            found = self._pages.get((task, url))
            if found is None:
                return None
            self._pages.move_to_end((task, url))
            return found[0]

    def forget(self, task: str) -> None:
        with self._lock:
            for key in [key for key in self._pages if key[0] == task]:
                self._drop(key)

    def _drop(self, key: tuple[str, str]) -> None:
        _, size = self._pages.pop(key, (None, 0))
        self._bytes -= size


pages = PageStore()


def forget_pages(task: str) -> None:
    """The task is over."""
    pages.forget(task)
