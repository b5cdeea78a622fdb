"""Asks the homeserver whose account it is, for whoever sets it up. The session that this makes is kept and used."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from gateway.platforms.id_forms import refuse_own
from gateway.platforms.matrix import SPEC
from gateway.platforms.matrix.account_files import AccountFiles
from gateway.platforms.matrix.link import can_encrypt
from gateway.platforms.matrix.session import open_session
from hermes_base.errors import ConfigProblem, DeliveryFailure

_ENCRYPTS = "it can read encrypted rooms"
_PLAIN = "it cannot read encrypted rooms (`matrix-nio[e2e]` brings what that needs)"


async def probe(settings: Mapping[str, Any], home: Path) -> str:
    """Which account it is, in a sentence; ConfigProblem when that cannot be found out."""
    try:
        link, login = await open_session(settings, AccountFiles(home, str(settings.get("account") or "matrix")))
    except DeliveryFailure as problem:
        raise ConfigProblem(str(problem), fix="Check the address and the network, and try again.") from None
    await link.close()
    refuse_own(SPEC.person_ids, settings, login.user)
    return f"It is {login.user} at {login.address}; {_ENCRYPTS if can_encrypt() else _PLAIN}."
