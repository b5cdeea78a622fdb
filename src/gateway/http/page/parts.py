"""What the calls of the page work with, handed to all of them."""

from dataclasses import dataclass
from pathlib import Path

from gateway.http.page.files import FileShelf
from gateway.platforms.web.adapter import WebAdapter
from gateway.service.queries.all_queries import Queries
from hermes_base.query_values import Caller


@dataclass(frozen=True, slots=True)
class Parts:
    home: Path
    queries: Queries
    web: WebAdapter
    shelf: FileShelf
    caller: Caller  # whoever got as far as a call of the page: the owner
