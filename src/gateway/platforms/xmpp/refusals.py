"""What a server, a room or somebody else's server says instead of taking something, in the words of the face. Pure."""

from collections.abc import Mapping
from enum import StrEnum
from xml.etree.ElementTree import Element

from gateway.platforms.face import NeverTaken, NotNow
from gateway.platforms.xmpp.xmpp_xml import CLIENT, STANZAS, STREAM_ERRORS, children_of, find, name_of, read_text
from hermes_base.errors import ConfigProblem, DeliveryFailure

NOT_CONNECTED_SECONDS = 2.0
PENALTY_SECONDS = 30.0
FAR_SECONDS = 120.0  # until a server that could not be reached is tried again
SET_UP = "Run `hermes setup xmpp`."
NOT_CONNECTED = "XMPP is not connected."
CUT = "The line to the XMPP server broke off before it said whether it took the message."
NOT_IN = "Hermes is not in the room {}; the message waits until it is."
BUSY = "The XMPP server {} does not say now what it offers: {}."
BROKEN = "The line to {} broke off: {}. It is made again; what people write meanwhile waits on the server."


class XmppKind(StrEnum):
    """What came of a try that brought no result."""

    REFUSED = "refused"  # an error stanza: `condition` says which
    UNSENT = "unsent"  # there was no line: nothing can have arrived
    UNSURE = "unsure"  # it broke off, or nobody answered


#: Conditions that say nothing of later, whatever type they are given.
_PASSING = frozenset({"resource-constraint", "remote-server-timeout", "remote-server-not-found"})


class XmppTrouble(Exception):
    """`condition` and `type` are those of an error stanza; `text` is free of what people wrote."""

    def __init__(self, kind: XmppKind, condition: str = "", type_: str = "", text: str = "") -> None:
        super().__init__(f"{condition} {text}".strip() or kind.value)
        self.kind = kind
        self.condition = condition
        self.type = type_
        self.text = text

    @property
    def passes(self) -> bool:
        """Whether it says nothing of what the same question would bring later."""
        return self.kind is not XmppKind.REFUSED or self.type == "wait" or self.condition in _PASSING


def read_error(stanza: Element) -> XmppTrouble:
    """What an error stanza says."""
    error = find(stanza, CLIENT, "error")
    if error is None:
        return XmppTrouble(XmppKind.REFUSED, "undefined-condition", "cancel")
    names = [name_of(child) for child in children_of(error, STANZAS) if name_of(child) != "text"]
    text = " ".join(read_text(error, STANZAS, "text").split())[:200]
    condition = names[0] if names else "undefined-condition"
    return XmppTrouble(XmppKind.REFUSED, condition, error.get("type") or "cancel", text)


#: After these a message waits: until somebody changes something (None), or for so many seconds.
_WAITS: Mapping[str, tuple[str, float | None]] = {
    "service-unavailable": ("{} takes no messages now, or there is no such address", None),
    "recipient-unavailable": ("{} is away, and the server there keeps nothing for them", None),
    "item-not-found": ("There is no {}", None),
    "forbidden": ("Hermes may not write to {}", None),
    "not-allowed": ("Hermes may not write to {}", None),
    "not-authorized": ("Hermes may not write to {}", None),
    "registration-required": ("{} is for members only", None),
    "subscription-required": ("{} takes messages only from contacts", None),
    "gone": ("{} has moved away or was closed", None),
    "not-acceptable": ("{} does not take messages of Hermes", None),
    "remote-server-not-found": ("The server of {} cannot be found", FAR_SECONDS),
    "remote-server-timeout": ("The server of {} does not answer", FAR_SECONDS),
    "resource-constraint": ("The server of {} has no room for it now", PENALTY_SECONDS),
    "internal-server-error": ("The server of {} failed", PENALTY_SECONDS),
    "undefined-condition": ("The server of {} does not say why it refused it", PENALTY_SECONDS),
    "unexpected-request": ("The server of {} was not ready for it", PENALTY_SECONDS),
}


def as_failure(trouble: XmppTrouble, chat: str) -> DeliveryFailure:
    """What whoever sends to a chat has to know: wait, give up, or send again in doubt."""
    if trouble.kind is XmppKind.UNSENT:
        return NotNow(NOT_CONNECTED, NOT_CONNECTED_SECONDS, whole_account=True)
    if trouble.kind is XmppKind.UNSURE:
        return DeliveryFailure(CUT)
    said = f" ({trouble.text})" if trouble.text else ""
    if trouble.condition == "policy-violation" and trouble.type == "wait":
        return NotNow(f"The server of {chat} asks for patience{said}.", PENALTY_SECONDS)
    if trouble.condition in _WAITS:
        words, seconds = _WAITS[trouble.condition]
        if trouble.type == "wait" and seconds is None:
            seconds = PENALTY_SECONDS
        return NotNow(f"{words.format(chat)}{said}; the message waits.", seconds)
    return NeverTaken(f"The server of {chat} refused it: {trouble.condition}{said}.")


# --- the line

#: What a server says when it ends the line, and what only the owner can put right of it.
_STREAM_ENDS: Mapping[str, str] = {
    "conflict": "another client has logged in under the same name",
    "system-shutdown": "the server is being shut down",
    "see-other-host": "the server sends its clients to another host",
    "policy-violation": "the server says that we broke a rule of it",
    "resource-constraint": "the server has no room for us now",
    "reset": "the server wants the line to be made anew",
    "connection-timeout": "the server heard nothing of us",
    "host-unknown": "the server does not know the part of the address behind the @",
    "host-gone": "the server does not serve this address any more",
    "not-authorized": "the server has ended the session",
    "not-well-formed": "what came over the line could not be read",
    "remote-connection-failed": "the server cannot reach what it needs itself",
}
LASTING = frozenset({"conflict", "host-unknown", "host-gone", "policy-violation", "not-authorized"})
CONFLICT = (
    "Another client of the XMPP account has the name `{}`, and the server ended our line for it: perhaps a second "
    "Hermes runs with this account. It is tried again every five minutes; give one of them another `resource`."
)


def read_stream_error(error: Element) -> tuple[str, str]:
    """Why a server ends the line: its condition, and a sentence on it."""
    names = [name_of(child) for child in children_of(error, STREAM_ERRORS) if name_of(child) != "text"]
    condition = names[0] if names else "undefined-condition"
    words = _STREAM_ENDS.get(condition, f"the server ended it ({condition})")
    if condition == "see-other-host":
        other = " ".join(read_text(error, STREAM_ERRORS, condition).split())[:100]
        words += f" ({other}); write that as `server` if it is yours" if other else ""
    return condition, words


_LOGIN: Mapping[str, str] = {
    "not-authorized": "The XMPP server does not know this address with this password.",
    "account-disabled": "The XMPP server has switched the account off.",
    "credentials-expired": "The password of the XMPP account has run out.",
    "encryption-required": "The XMPP server lets nobody log in over a line that is not encrypted.",
    "mechanism-too-weak": "The XMPP server takes none of the ways to log in that are safe here.",
    "invalid-mechanism": "The XMPP server takes none of the ways to log in that are safe here.",
    "malformed-request": "The XMPP server could not read the password; it may hold a sign that is not allowed.",
}


def as_login_problem(condition: str, text: str) -> ConfigProblem | DeliveryFailure:
    if condition == "temporary-auth-failure":
        return NotNow("The XMPP server cannot check passwords now.", PENALTY_SECONDS, whole_account=True)
    said = " ".join(text.split())[:200]
    what = _LOGIN.get(condition, f"The XMPP server lets the account not in ({condition}).")
    return ConfigProblem(f"{what}{f' It says: {said}' if said else ''}", fix=SET_UP)


#: Why a room does not let us in.
_JOIN_REFUSALS: Mapping[str, str] = {
    "not-authorized": "its password is another one",
    "forbidden": "Hermes is banned there",
    "registration-required": "it is for members only",
    "item-not-found": "there is no such room",
    "not-allowed": "nobody may make this room",
    "not-acceptable": "it wants a nick that was registered",
    "service-unavailable": "it is full, or there are no rooms on that server",
    "resource-constraint": "its server is too busy",
    "internal-server-error": "its server failed",
    "remote-server-not-found": "its server cannot be found",
    "remote-server-timeout": "its server does not answer",
    "gone": "it was closed",
    "jid-malformed": "that is no address of a room",
}
#: After these only people can change something about it.
_JOIN_ENDS = frozenset(
    {
        "not-authorized",
        "forbidden",
        "registration-required",
        "item-not-found",
        "not-allowed",
        "not-acceptable",
        "gone",
        "jid-malformed",
    }
)
SILENT = "its server does not answer"


def judge_join(trouble: XmppTrouble) -> tuple[str, bool]:
    """Why we are not in a room, and whether that is for good: anything that may pass leaves it ours."""
    if trouble.kind is not XmppKind.REFUSED:
        return SILENT, False
    words = _JOIN_REFUSALS.get(trouble.condition, trouble.condition)
    return words, trouble.condition in _JOIN_ENDS and not trouble.passes
