"""Files that the page sends and fetches."""

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

from msgspec import Meta, Struct
from starlette.requests import Request
from starlette.responses import FileResponse, Response
from starlette.routing import BaseRoute, Route

from gateway.http.calls import Refusal, answer_json, check_length, guarded, read_query
from gateway.http.page.files import read_head
from gateway.http.page.parts import Parts
from hermes_base.image_types import find_image_type

#: Whatever the file is, it is no page of ours: nothing in it runs.
_POLICY = "default-src 'none'; sandbox"
_BINARY = "application/octet-stream"


class UploadQuery(Struct):
    name: Annotated[str, Meta(max_length=1_000)] = ""


class FileRoutes:
    def __init__(self, parts: Parts) -> None:
        self._shelf = parts.shelf

    def list(self) -> Sequence[BaseRoute]:
        return [
            Route("/web/upload", guarded(self.take), methods=["POST"]),
            Route("/web/files/{id}", guarded(self.give), methods=["GET"]),
        ]

    async def take(self, request: Request) -> Response:
        length = check_length(request, self._shelf.most_bytes())
        id, file = await self._shelf.store(read_query(request, UploadQuery).name, request.stream(), length)
        return answer_json({"id": id, "name": file.name, "kind": file.kind, "size": file.size})

    async def give(self, request: Request) -> Response:
        path, image = await asyncio.to_thread(self._find, str(request.path_params["id"]))
        return FileResponse(
            path,
            headers={"content-security-policy": _POLICY, "cache-control": "private, max-age=3600"},
            media_type=image or _BINARY,
            filename=path.name,
            content_disposition_type="inline" if image else "attachment",
        )

    def _find(self, id: str) -> tuple[Path, str]:
        path = self._shelf.find_path(id)
        if path is None:
            raise Refusal(404, "not_there", "There is no such file. It may have been tidied up.")
        return path, find_image_type(read_head(path))
