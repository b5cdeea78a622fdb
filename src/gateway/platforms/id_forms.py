"""The form in which a platform writes the ids of its people and chats (G2). Its SPEC says it, and whatever people type
or write into the settings is brought into it before it is compared, so that an id has one spelling everywhere."""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from hermes_base.errors import ConfigProblem


def lower_ascii(id: str) -> str:
    """Capital letters small, and no other sign touched: some of those become plain letters, and so somebody else."""
    return "".join(sign.lower() if sign.isascii() else sign for sign in id)


@dataclass(frozen=True, slots=True)
class IdForm:
    """How ids of one kind are written; without a pattern any text is one."""

    pattern: str = ""  # of an id in its own form, as a regular expression
    says: str = ""  # the sentence on it, behind what it is about
    bring: Callable[[str], str] = str  # what somebody typed, in its own form; what is in it already stays as it is

    def fits(self, id: str) -> bool:
        return not self.pattern or re.fullmatch(self.pattern, id) is not None

    def read(self, value: Any) -> list[str]:
        """The ids that stand in the settings, in their own form."""
        return [self.bring(id) for id in list_ids(value)]


ANY_ID = IdForm()


def refuse_own(form: IdForm, settings: Mapping[str, Any], *own: object) -> None:
    """ConfigProblem when the settings call one of our own ids the owner: what we say ourselves is never heard, so that
    would be nobody. Every probe calls it with what the service has told."""
    ours = {form.bring(str(id)) for id in own if id}
    same = next((id for id in form.read(settings.get("owner")) if id in ours), "")
    if same:
        raise ConfigProblem(
            f"{same} is the account of Hermes itself, and cannot be its owner.",
            kept="Nothing was changed.",
            fix="Give the id of your own account there, with which you write to it, or none.",
        )


def list_ids(value: Any) -> list[str]:
    """Ids as they were written, in order: in a settings file they are often numbers, a single one needs no list, and
    several may stand in a text with commas between them."""
    every = value if isinstance(value, list | tuple) else [value]
    texts = [str(id) for id in every if isinstance(id, str | int) and not isinstance(id, bool)]
    return [id for text in texts for part in text.split(",") if (id := part.strip())]
