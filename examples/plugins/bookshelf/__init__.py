"""A web search, and a reader of pages: here of text files in a folder (`BOOKSHELF_FOLDER`) instead of a service.

`hermes config set web.backend bookshelf` has `web_search` and `web_extract` ask it.
"""

import os
from pathlib import Path

from agent.web_search_provider import WebSearchProvider, get_provider_env

PLACE = "https://bookshelf.example/"


class Bookshelf(WebSearchProvider):
    name = "bookshelf"  # what `web.backend` calls it

    def is_available(self):
        """Without the network: for example, whether its key is set."""
        return os.path.isdir(get_provider_env("BOOKSHELF_FOLDER"))

    def supports_extract(self):
        return True

    def search(self, query, limit=5):
        words = query.lower().split()
        texts = {
            page.name: page.read_text() for page in sorted(Path(get_provider_env("BOOKSHELF_FOLDER")).glob("*.txt"))
        }
        found = [name for name, text in texts.items() if all(word in text.lower() for word in words)]
        rows = [
            {"title": name, "url": PLACE + name, "description": texts[name][:200], "position": place}
            for place, name in enumerate(found[:limit], start=1)
        ]
        return {"success": True, "data": {"web": rows}}

    def extract(self, urls, **options):
        """May be `async def`, too. One row for each address, in their order."""
        return [self._read(url) for url in urls]

    def _read(self, url):
        name = url.removeprefix(PLACE)
        page = Path(get_provider_env("BOOKSHELF_FOLDER"), Path(name).name)
        if not url.startswith(PLACE) or not page.is_file():
            return {"url": url, "error": "the shelf has no such page"}
        text = page.read_text()
        return {"url": url, "title": name, "content": text, "raw_content": text}


def register(ctx):
    ctx.register_web_search_provider(Bookshelf())
