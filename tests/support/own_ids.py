"""Ids of each chat app: as somebody may type one, as the app writes it, and what is none of its ids."""

from dataclasses import dataclass


@dataclass(frozen=True)
class OwnIds:
    typed: str
    person: str
    nobody: str
    typed_group: str = ""
    group: str = ""  # empty: the app has none for us
    no_group: str = ""


OWN_IDS = {
    "discord": OwnIds(
        " 80351110224678912", "80351110224678912", "ann#1234", "41771983423143937 ", "41771983423143937", "#ops"
    ),
    "irc": OwnIds("Ann", "ann", "two words", "#Ops", "#ops", "#two words"),
    "mail": OwnIds("Ann@Home.Test", "ann@home.test", "ann"),
    "matrix": OwnIds(
        "@ann:Home.Test", "@ann:home.test", "@Ann:home.test", " !AbC:home.test", "!AbC:home.test", "#ops:home.test"
    ),
    "signal": OwnIds(
        "3D8A2C1E-0B1C-4D2E-8F3A-9B4C5D6E7F80",
        "3d8a2c1e-0b1c-4d2e-8f3a-9b4c5d6e7f80",
        "+4915112345678",
        " qVbN+1/2==",
        "qVbN+1/2==",
        "our group!",
    ),
    "slack": OwnIds("u012ab3cd", "U012AB3CD", "@ann", "c012ab3cd", "C012AB3CD", "#ops"),
    "telegram": OwnIds(" 7001", "7001", "@ann", "-1001234 ", "-1001234", "@ops"),
    "whatsapp": OwnIds("+49 (151) 123-45678", "4915112345678", "0151 12345678"),
    "xmpp": OwnIds(
        "Ann2@Home.Test/phone", "ann2@home.test", "ann", "Plans@Rooms.Home.Test", "plans@rooms.home.test", "plans"
    ),
}
