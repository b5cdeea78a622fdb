"""One form of the many ids that WhatsApp has for a person: a number, with a device behind it, at one of its servers."""

import re

_AT = re.compile(r"@.*\Z", re.DOTALL)
_DEVICE = re.compile(r":\d+\Z")


def canonical_whatsapp_identifier(value: str) -> str:
    """The bare number or id: without the server, the device and what people write around a number."""
    bare = _DEVICE.sub("", _AT.sub("", str(value or "").strip()))
    digits = re.sub(r"[\s()+.-]", "", bare)
    return digits if digits.isdecimal() else bare


def expand_whatsapp_aliases(value: str) -> set[str]:
    """Every form in which the same id may stand in a list."""
    given, bare = str(value or "").strip(), canonical_whatsapp_identifier(value)
    if not bare:
        return set()
    servers = {f"{bare}@s.whatsapp.net"} if bare.isdecimal() else set()
    return {given, bare, *servers, *({f"+{bare}"} if bare.isdecimal() else ())} - {""}
