"""A server that wants a login, on the official SDK with its own OAuth: `PORT=… python mcp_login_server.py`."""

import os
import secrets
import time

from mcp.server.auth.provider import (
    AccessToken,
    AuthorizationCode,
    AuthorizationParams,
    OAuthAuthorizationServerProvider,
    RefreshToken,
    construct_redirect_uri,
)
from mcp.server.auth.settings import AuthSettings, ClientRegistrationOptions
from mcp.server.fastmcp import FastMCP
from mcp.shared.auth import OAuthClientInformationFull, OAuthToken
from pydantic import AnyHttpUrl, AnyUrl

port = int(os.environ["PORT"])
OWN_PORT = os.environ.get("OWN_PORT", "")  # given: nobody else is registered
ADDRESS = AnyHttpUrl(f"http://127.0.0.1:{port}")


class Accounts(OAuthAuthorizationServerProvider[AuthorizationCode, RefreshToken, AccessToken]):
    """Everybody who comes is let in; tokens are kept in memory."""

    def __init__(self) -> None:
        self.clients: dict[str, OAuthClientInformationFull] = {}
        if OWN_PORT:  # the one program that was registered by hand
            back = AnyUrl(f"http://127.0.0.1:{OWN_PORT}/callback")
            self.clients["hermes-at-home"] = OAuthClientInformationFull(
                client_id="hermes-at-home",
                client_secret="canary-of-the-app",
                redirect_uris=[back],
                token_endpoint_auth_method="client_secret_basic",
            )
        self.codes: dict[str, AuthorizationCode] = {}
        self.tokens: dict[str, AccessToken] = {}
        self.refreshing: dict[str, RefreshToken] = {}

    async def get_client(self, client_id: str) -> OAuthClientInformationFull | None:
        return self.clients.get(client_id)

    async def register_client(self, client_info: OAuthClientInformationFull) -> None:
        assert client_info.client_id
        self.clients[client_info.client_id] = client_info

    async def authorize(self, client: OAuthClientInformationFull, params: AuthorizationParams) -> str:
        code = AuthorizationCode(
            code=secrets.token_urlsafe(32),
            client_id=client.client_id or "",
            redirect_uri=params.redirect_uri,
            redirect_uri_provided_explicitly=params.redirect_uri_provided_explicitly,
            expires_at=time.time() + 300,
            scopes=params.scopes or [],
            code_challenge=params.code_challenge,
            resource=params.resource,
        )
        self.codes[code.code] = code
        return construct_redirect_uri(str(params.redirect_uri), code=code.code, state=params.state)

    async def load_authorization_code(
        self, client: OAuthClientInformationFull, authorization_code: str
    ) -> AuthorizationCode | None:
        return self.codes.get(authorization_code)

    async def exchange_authorization_code(
        self, client: OAuthClientInformationFull, authorization_code: AuthorizationCode
    ) -> OAuthToken:
        del self.codes[authorization_code.code]
        return self._make(client.client_id or "")

    async def load_refresh_token(self, client: OAuthClientInformationFull, refresh_token: str) -> RefreshToken | None:
        return self.refreshing.get(refresh_token)

    async def exchange_refresh_token(
        self, client: OAuthClientInformationFull, refresh_token: RefreshToken, scopes: list[str]
    ) -> OAuthToken:
        self.tokens.clear()  # the old ones end
        return self._make(client.client_id or "")

    async def load_access_token(self, token: str) -> AccessToken | None:
        return self.tokens.get(token)

    async def revoke_token(self, token: AccessToken | RefreshToken) -> None:
        self.tokens.pop(token.token, None)

    def _make(self, client: str) -> OAuthToken:
        access, refresh = f"access-{secrets.token_hex(8)}", f"refresh-{secrets.token_hex(8)}"
        self.tokens[access] = AccessToken(token=access, client_id=client, scopes=[])
        self.refreshing[refresh] = RefreshToken(token=refresh, client_id=client, scopes=[])
        return OAuthToken(access_token=access, refresh_token=refresh, expires_in=3600)


settings = AuthSettings(
    issuer_url=ADDRESS,
    resource_server_url=AnyHttpUrl(f"{ADDRESS}mcp"),
    validate_token_resource=False,
    client_registration_options=ClientRegistrationOptions(enabled=not OWN_PORT),
)
server = FastMCP("locked", port=port, log_level="CRITICAL", auth=settings, auth_server_provider=Accounts())


@server.tool()
def open_door() -> str:
    """Open the door."""
    return "it is open"


server.run("streamable-http")
