"""Makes the session of an account: the one that is kept in the home as long as it lasts, else a new one."""

import asyncio
import hashlib
import secrets
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from gateway.platforms.matrix.account_files import AccountFiles, MatrixLogin
from gateway.platforms.matrix.link import MatrixLink
from gateway.platforms.matrix.refusals import MatrixKind, MatrixTrouble, as_failure
from hermes_base.errors import ConfigProblem

SET_UP = "Run `hermes setup matrix`."
BAD_PASSWORD = "The homeserver does not know this user with this password."
BAD_TOKEN = "The homeserver does not know the access token: it is wrong, or it was revoked."


@dataclass(frozen=True, slots=True)
class MatrixAccess:
    """What the settings say of an account."""

    homeserver: str
    user: str
    password: str
    token: str

    @property
    def secret_mark(self) -> str:
        """Tells another secret from this one, without telling it."""
        return hashlib.sha256(f"{self.user}\0{self.token or self.password}".encode()).hexdigest()


def read_access(settings: Mapping[str, Any]) -> MatrixAccess:
    """ConfigProblem for settings that will not do."""
    given = {key: str(settings.get(key) or "").strip() for key in ("homeserver", "user", "password", "token")}
    access = MatrixAccess(**given)
    if not access.homeserver:
        raise ConfigProblem("Matrix has no homeserver.", fix=SET_UP)
    if not access.token and not access.password:
        raise ConfigProblem("Matrix has neither a password nor an access token.", fix=SET_UP)
    name, colon, server = access.user.removeprefix("@").partition(":")
    if not access.user.startswith("@") or not (name and colon and server):
        raise ConfigProblem(
            f"'{access.user}' is no Matrix id.", fix="platforms.matrix.user is one like @hermes:example.org."
        )
    return access


async def open_session(settings: Mapping[str, Any], files: AccountFiles) -> tuple[MatrixLink, MatrixLogin]:
    """The line and the session. ConfigProblem for what the owner can put right, a DeliveryFailure for the rest."""
    access = read_access(settings)
    kept = await asyncio.to_thread(files.read_login)
    await asyncio.to_thread(files.make)
    kept = kept if kept is not None and kept.user == access.user else None
    try:
        address = await _find_address(access, files)
        link = MatrixLink(address, access.user, files.keys)
        try:
            login = await _log_in(link, access, kept)
            link.open_keys()
            if login != kept:
                await asyncio.to_thread(files.keep_login, login)
        except BaseException:
            await link.close()
            raise
    except MatrixTrouble as trouble:
        raise as_failure(trouble) from None
    return link, login


async def renew_session(link: MatrixLink, login: MatrixLogin, settings: Mapping[str, Any]) -> MatrixLogin | None:
    """The session with another token, on the same device; None: there is no password to ask for it with."""
    access = read_access(settings)
    if access.token or not access.password:
        return None
    _, device, token = await link.log_in(access.password, login.device)
    return replace(login, device=device, token=token)


async def _find_address(access: MatrixAccess, files: AccountFiles) -> str:
    """The address of the homeserver; of one that is given by its name, as that says."""
    if "://" in access.homeserver:
        return access.homeserver.rstrip("/")
    plain = f"https://{access.homeserver}"
    asking = MatrixLink(plain, access.user, files.keys)
    try:
        return ((await asking.find_address()) or plain).rstrip("/")
    finally:
        await asking.close()


async def _log_in(link: MatrixLink, access: MatrixAccess, kept: MatrixLogin | None) -> MatrixLogin:
    device, salt = "", secrets.token_hex(16)
    if kept is not None:
        is_same = (kept.address, kept.secret_mark) == (link.address, access.secret_mark)
        device, salt = (kept.device, kept.salt) if is_same else ("", salt)
        if is_same:
            try:
                link.use(kept.user, kept.device, kept.token)
                await link.ask_who()
                return kept
            except MatrixTrouble as trouble:
                if trouble.kind is not MatrixKind.TOKEN:
                    raise
                if not trouble.soft:  # its device is gone, and its keys with it
                    device, salt = "", secrets.token_hex(16)
    token = access.token
    try:
        if token:
            link.use(access.user, "", token)
            user, device = await link.ask_who()
        else:
            user, device, token = await link.log_in(access.password, device)
    except MatrixTrouble as trouble:
        if trouble.kind in (MatrixKind.TOKEN, MatrixKind.FORBIDDEN, MatrixKind.CLOSED):
            raise ConfigProblem(BAD_TOKEN if access.token else BAD_PASSWORD, fix=SET_UP) from None
        raise
    if user != access.user:
        raise ConfigProblem(f"The homeserver says that this is {user}, not {access.user}.", fix=SET_UP)
    link.use(user, device, token)
    return MatrixLogin(link.address, user, device, token, access.secret_mark, salt)
