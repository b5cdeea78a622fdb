"""Files that come from a homeserver: they go to the disk piece by piece, whatever was said of their size."""

import asyncio
import json
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest
from aiohttp import web
from nio.crypto.attachments import encrypt_attachment
from waiting import until

from gateway.platforms.matrix.link import MatrixLink
from gateway.platforms.matrix.refusals import MatrixKind, MatrixTrouble

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


def play(home: Path, handler: Handler, steps: Callable[[MatrixLink], Awaitable[None]]) -> None:
    """Run the steps with a line to a server that answers like this."""

    async def run() -> None:
        app = web.Application()
        app.router.add_route("GET", "/{any:.*}", handler)
        runner = web.AppRunner(app)
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        link = MatrixLink(f"http://127.0.0.1:{runner.addresses[0][1]}", "@hermes:x", home)
        link.use("@hermes:x", "DEVICE", "token")
        try:
            await steps(link)
        finally:
            await link.close()
            await runner.cleanup()

    asyncio.run(run())


def test_what_has_come_of_a_file_is_on_the_disk(tmp_path: Path) -> None:
    """Whoever fetches it sees how large it grows, and ends it; memory holds one piece of it. Also where the server says
    that it is JSON."""
    piece, ended = b"x" * 1_000_000, asyncio.Event()

    async def endless(request: web.Request) -> web.StreamResponse:
        assert (request.headers["Authorization"], request.query_string) == ("Bearer token", "")
        answer = web.StreamResponse(headers={"Content-Type": "application/json"})
        await answer.prepare(request)
        await answer.write(piece)
        await ended.wait()  # the rest never comes
        return answer

    async def steps(link: MatrixLink) -> None:
        path = tmp_path / "file"
        fetching = asyncio.create_task(link.fetch("mxc://x/y", path))
        await until(lambda: path.exists() and path.stat().st_size == len(piece))
        fetching.cancel()
        await asyncio.wait({fetching})
        assert fetching.cancelled()
        ended.set()

    play(tmp_path, endless, steps)


def test_an_encrypted_file_is_opened_on_the_way(tmp_path: Path) -> None:
    plain = bytes(range(256)) * 2_000
    locked, keys = encrypt_attachment(plain)
    remote = json.dumps({**keys, "url": "mxc://x/y"})
    served = [locked, locked[:-1] + b"!"]

    async def hand_out(_: web.Request) -> web.StreamResponse:
        return web.Response(body=served.pop(0))

    async def steps(link: MatrixLink) -> None:
        await link.fetch(remote, tmp_path / "file")
        assert (tmp_path / "file").read_bytes() == plain
        with pytest.raises(MatrixTrouble, match="cannot be decrypted") as changed:
            await link.fetch(remote, tmp_path / "other")
        assert changed.value.kind is MatrixKind.REFUSED

    play(tmp_path, hand_out, steps)


@pytest.mark.parametrize("described", [{}, {"key": {"k": "!"}, "iv": "", "hashes": {"sha256": ""}}, {"key": "k"}])
def test_keys_that_are_none_are_refused(tmp_path: Path, described: dict[str, object]) -> None:
    async def hand_out(_: web.Request) -> web.StreamResponse:
        return web.Response(body=b"x")

    async def steps(link: MatrixLink) -> None:
        with pytest.raises(MatrixTrouble) as refused:
            await link.fetch(json.dumps({**described, "url": "mxc://x/y"}), tmp_path / "file")
        assert refused.value.kind is MatrixKind.REFUSED

    play(tmp_path, hand_out, steps)


@pytest.mark.parametrize(
    ("answer", "kind"),
    [
        ({"status": 404, "text": '{"errcode": "M_NOT_FOUND", "error": "gone"}'}, MatrixKind.MISSING),
        ({"status": 403, "text": '{"errcode": "M_FORBIDDEN", "error": "no"}'}, MatrixKind.FORBIDDEN),
        ({"status": 429, "text": '{"errcode": "M_LIMIT_EXCEEDED", "retry_after_ms": 1}'}, MatrixKind.PENALTY),
        ({"status": 502, "text": "<html>"}, MatrixKind.UNSURE),
        ({"status": 500, "text": "[]"}, MatrixKind.UNSURE),
    ],
)
def test_why_a_file_is_not_handed_out_is_told(tmp_path: Path, answer: dict[str, object], kind: MatrixKind) -> None:
    async def refuse(_: web.Request) -> web.StreamResponse:
        return web.Response(**answer)  # type: ignore[arg-type]

    async def steps(link: MatrixLink) -> None:
        with pytest.raises(MatrixTrouble) as refused:
            await link.fetch("mxc://x/y", tmp_path / "file")
        assert refused.value.kind is kind

    play(tmp_path, refuse, steps)
