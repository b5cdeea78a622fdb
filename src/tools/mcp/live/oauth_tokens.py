"""Signing in at a server (OAuth 2.1 with PKCE and state), and the tokens of it: in the home, the owner's alone.

The SDK does the protocol; whatever address a server names on the way is called by the client that judges it (G8).
"""

import asyncio
import json
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import httpx
from mcp.client.auth import OAuthClientProvider
from mcp.client.auth.exceptions import OAuthFlowError, OAuthRegistrationError
from mcp.shared.auth import OAuthClientInformationFull, OAuthClientMetadata, OAuthMetadata, OAuthToken

from hermes_base.errors import ConfigProblem
from hermes_cli.config.own_files import replace_file
from tools.mcp.live.keeper_stdio import ServerPlace
from tools.mcp.live.remote_http import make_client
from tools.mcp.mcp_memory import FOLDER, TOKENS, file_name, make_private
from tools.mcp.mcp_specs import ServerSpec, expand

LOGIN_SECONDS = 300.0
EARLY_SECONDS = 60.0  # a token is renewed so long before it ends
REQUEST_BYTES = 16_384
CALLBACK = "/callback"
_PAGE = (
    "HTTP/1.1 {status}\r\nContent-Type: text/html; charset=utf-8\r\nConnection: close\r\n"
    "Content-Security-Policy: default-src 'none'\r\n\r\n<!doctype html><title>Hermes</title><p>{text}</p>"
)

#: Shows the address at which the person signs in.
ShowAddress = Callable[[str], None]
#: Waits for the address that the person was led back to.
WaitForReturn = Callable[[], Awaitable[str]]


@dataclass
class OAuthTokenFile:
    """What is kept of a login: tokens, who we are to that server, and where it renews tokens."""

    path: Path
    url: str  # tokens are for this address alone
    fresh: bool = False  # a login begins anew
    app: OAuthClientInformationFull | None = None  # who we are, where the owner says so

    def read(self) -> dict[str, Any]:
        try:
            kept: dict[str, Any] = json.loads(self.path.read_bytes())
        except (OSError, ValueError):
            return {}
        return kept if isinstance(kept, dict) and kept.get("url") == self.url else {}

    def write(self, **values: Any) -> None:
        make_private(self.path.parent)
        replace_file(self.path, json.dumps({**self.read(), "url": self.url, **values}))

    async def get_tokens(self) -> OAuthToken | None:
        kept = {} if self.fresh else self.read().get("tokens")
        return OAuthToken.model_validate(kept) if kept else None

    async def set_tokens(self, tokens: OAuthToken) -> None:
        ends = time.time() + tokens.expires_in - EARLY_SECONDS if tokens.expires_in else None
        known = self.read().get("tokens") or {}
        new = tokens.model_dump(mode="json", exclude_none=True)
        kept = {"refresh_token": known["refresh_token"]} if "refresh_token" in known and not self.fresh else {}
        self.write(tokens={**kept, **new}, ends=ends)

    async def get_client_info(self) -> OAuthClientInformationFull | None:
        kept = {} if self.fresh else self.read().get("client")
        if self.app is not None:
            return self.app
        return OAuthClientInformationFull.model_validate(kept) if kept else None

    async def set_client_info(self, client_info: OAuthClientInformationFull) -> None:
        self.write(client=client_info.model_dump(mode="json", exclude_none=True))


class KeptLogin(OAuthClientProvider):
    """The SDK's login, which remembers when a token ends and where it is renewed."""

    def __init__(self, file: OAuthTokenFile, **options: Any) -> None:
        super().__init__(storage=file, **options)
        self._file = file

    async def _initialize(self) -> None:
        await super()._initialize()
        kept = {} if self._file.fresh else self._file.read()
        self.context.token_expiry_time = kept.get("ends")
        if kept.get("metadata"):
            self.context.oauth_metadata = OAuthMetadata.model_validate(kept["metadata"])

    async def _handle_token_response(self, response: httpx.Response) -> None:
        await super()._handle_token_response(response)
        metadata = self.context.oauth_metadata
        if metadata is not None:
            self._file.write(metadata=metadata.model_dump(mode="json", exclude_none=True))


def find_file(spec: ServerSpec, place: ServerPlace, *, fresh: bool = False) -> OAuthTokenFile:
    url = expand(spec.url, place.look_up, f"{spec.name}.url")
    return OAuthTokenFile(place.home / FOLDER / TOKENS / f"{file_name(spec.name)}.json", url, fresh)


def find_login(spec: ServerSpec, place: ServerPlace) -> httpx.Auth | None:
    """The login of a server, if somebody has signed in; nobody is asked to while a turn runs."""
    file = find_file(spec, place)
    back = "http://127.0.0.1/callback"
    return _make_login(file, back, None, None, _find_app(spec, place, back)) if file.read().get("tokens") else None


def _find_app(spec: ServerSpec, place: ServerPlace, back: str) -> OAuthClientInformationFull | None:
    """Who we are by the settings; None: the server says."""
    if not spec.oauth.client_id:
        return None
    name, secret = (
        expand(text, place.look_up, f"{spec.name}.oauth") for text in (spec.oauth.client_id, spec.oauth.client_secret)
    )
    ways = {"client_secret": secret, "token_endpoint_auth_method": "client_secret_basic"} if secret else {}
    given = {"client_id": name, "redirect_uris": [back], "token_endpoint_auth_method": "none", **ways}
    return OAuthClientInformationFull.model_validate(given)


def _make_login(
    file: OAuthTokenFile,
    back: str,
    show: Callable[[str], Awaitable[None]] | None,
    wait: Callable[[], Awaitable[tuple[str, str | None]]] | None,
    app: OAuthClientInformationFull | None,
) -> KeptLogin:
    file.app = app
    metadata = OAuthClientMetadata.model_validate(
        {
            "client_name": "Hermes",
            "redirect_uris": [back],
            "grant_types": ["authorization_code", "refresh_token"],
            "response_types": ["code"],
            "token_endpoint_auth_method": "none",
        }
    )
    return KeptLogin(
        file,
        server_url=file.url,
        client_metadata=metadata,
        redirect_handler=show,
        callback_handler=wait,
        timeout=LOGIN_SECONDS,
    )


async def sign_in(spec: ServerSpec, place: ServerPlace, show: ShowAddress, paste: WaitForReturn | None = None) -> None:
    """Have the person sign in; the tokens are kept. ConfigProblem when it comes to nothing."""
    file = find_file(spec, place, fresh=True)
    returned: asyncio.Future[str] = asyncio.get_running_loop().create_future()
    try:
        server = await asyncio.start_server(
            lambda reader, writer: _take_return(reader, writer, returned), "127.0.0.1", spec.oauth.port
        )
    except OSError as error:
        what = f"The port {spec.oauth.port}, to which the browser is to be led back, is taken."
        raise ConfigProblem(what, fix=f"Free it, or change mcp_servers.{spec.name}.oauth.port.") from error
    port = server.sockets[0].getsockname()[1]

    async def show_checked(url: str) -> None:
        if urlsplit(url).scheme not in ("https", "http"):
            raise OAuthFlowError("the address to sign in at is none")
        show(url)

    async def wait() -> tuple[str, str | None]:
        address = await (paste() if paste is not None else returned)
        found = parse_qs(urlsplit(address).query)
        if "error" in found:
            raise OAuthFlowError(f"the server refuses: {found['error'][0][:200]}")
        return found.get("code", [""])[0], found.get("state", [None])[0]

    back = f"http://127.0.0.1:{port}{CALLBACK}"
    login = _make_login(file, back, show_checked, wait, _find_app(spec, place, back))
    try:
        async with asyncio.timeout(LOGIN_SECONDS), server, make_client(file.url, {}, place, spec, login) as client:
            hello = {"jsonrpc": "2.0", "id": 0, "method": "ping"}
            accepted = {"Accept": "application/json, text/event-stream"}
            async with client.stream("POST", file.url, json=hello, headers=accepted):
                pass  # only its refusal matters: it begins the login
    except TimeoutError as error:
        raise ConfigProblem("Nobody signed in within five minutes.", fix="Try it again.") from error
    except OAuthRegistrationError as error:
        fix = f"Register Hermes there, and write mcp_servers.{spec.name}.oauth: {{client_id: …, port: …}}."
        raise ConfigProblem(f"Signing in at {spec.name} failed: {str(error)[:300]}", fix=fix) from None
    except OAuthFlowError as error:
        raise ConfigProblem(f"Signing in at {spec.name} failed: {str(error)[:300]}") from None
    except httpx.HTTPError as error:
        raise ConfigProblem(f"The server {spec.name} cannot be reached ({type(error).__name__}).") from None
    if not OAuthTokenFile(file.path, file.url).read().get("tokens"):
        raise ConfigProblem(f"The server {spec.name} asks for no login.", fix="It can be used as it is.")


async def _take_return(
    reader: asyncio.StreamReader, writer: asyncio.StreamWriter, returned: "asyncio.Future[str]"
) -> None:
    """The browser comes back with the code; anything else that calls here is told that there is nothing."""
    try:
        async with asyncio.timeout(10):
            head = await reader.readuntil(b"\r\n")
        method, target, *_ = head[:REQUEST_BYTES].decode("latin-1").split(" ")
        is_return = method == "GET" and urlsplit(target).path == CALLBACK
        text = "You are signed in. This page can be closed." if is_return else "There is nothing here."
        writer.write(_PAGE.format(status="200 OK" if is_return else "404 Not Found", text=escape(text)).encode())
        await writer.drain()
        writer.close()
        await writer.wait_closed()
        if is_return and not returned.done():
            returned.set_result(target)
    except (OSError, ValueError, TimeoutError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
        return  # whoever it was
    finally:
        writer.transport.abort()
