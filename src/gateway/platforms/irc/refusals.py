"""What a server says instead of handing a message on, in the words of the face of a platform. Pure."""

import re
from collections.abc import Mapping

from gateway.platforms.face import NeverTaken, NotNow
from gateway.platforms.irc.connection.irc_line import IrcLine
from hermes_base.errors import DeliveryFailure

PENALTY_SECONDS = 30.0  # where the server names no time
AWAY = "Nobody with the services account {} is on IRC; the message waits until they are."
NOT_IN = "We are not in the channel {}; the message waits until we are."
CUT = "The line to IRC broke off."
NO_ANSWER = "The IRC server did not say whether it took the message."
NOT_CONNECTED = "IRC is not connected."
_MARKUP = re.compile(r"colou?r|formatting|control codes", re.IGNORECASE)
_SECONDS = re.compile(r"([0-9]{1,4})\s*(?:s\b|sec)", re.IGNORECASE)

#: Numerics after which the message waits for somebody to change something; by what is said of it.
_WAITS: Mapping[str, str] = {
    "401": "{} is not on IRC now; the message waits until they are.",
    "403": "There is no channel {} now; the message waits until there is.",
    "404": "We may not write in {}; the message waits until we may.",
    "442": NOT_IN,
    "477": "{} takes messages only from those who are logged in; the message waits.",
    "486": "{} takes messages only from those who are logged in; the message waits.",
    "489": "{} takes messages only over TLS; the message waits.",
    "531": "{} takes no messages from us; the message waits until they do.",
    "716": "{} takes messages only from people whom they have accepted; the message waits until they accept us.",
}
_PENALTIES = frozenset({"263", "439"})
_NEVER = frozenset({"407", "408", "411", "412", "413", "414", "415", "417", "421", "461"})
#: Those that name no target: they are about the oldest message that waits for its answer.
NAMELESS = frozenset({"411", "412", "417", "421", "461", "263", "FAIL"})
_NAME_COMMAND = {"421": 1, "461": 1, "263": 1, "FAIL": 0}  # where they say what they are about
SEND_REFUSALS = frozenset(_WAITS) | _PENALTIES | _NEVER | {"FAIL"}


def is_about_message(line: IrcLine) -> bool:
    """Whether a server may say this of a message of ours."""
    named = _NAME_COMMAND.get(line.command)
    return line.command in SEND_REFUSALS and (named is None or line.param(named).upper() == "PRIVMSG")


def as_failure(line: IrcLine) -> DeliveryFailure:
    """What whoever sends has to know: wait, give up, or say it without markup."""
    target, said = line.param(1), line.param(-1)
    if line.command == "408" or (line.command in ("404", "531") and _MARKUP.search(said)):
        return NeverTaken(f"{target} takes no markup: {said}", markup=True)
    if line.command in _PENALTIES:
        named = _SECONDS.search(said)
        seconds = float(named[1]) if named and int(named[1]) else PENALTY_SECONDS
        return NotNow(f"The IRC server asks for {seconds:.0f} s of patience.", seconds)
    if line.command in _WAITS:
        return NotNow(_WAITS[line.command].format(target))
    return NeverTaken(f"The IRC server refused it: {said}")


#: Why a channel does not let us in.
JOIN_REFUSALS: Mapping[str, str] = {
    "403": "there is no such channel",
    "405": "we are in too many channels",
    "437": "it cannot be joined for the moment",
    "471": "it is full",
    "473": "one has to be invited",
    "474": "we are banned there",
    "475": "its key is another one",
    "476": "that is no name of a channel",
    "477": "one has to be logged in",
    "480": "it does not take us now",
    "489": "one has to come over TLS",
    "520": "it is for operators of the network",
}
