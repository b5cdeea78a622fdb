"""What the settings of a hook mean. Pure; whatever is wrong with them is a sentence."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from gateway.platforms.account_settings import PRIVATE, SIBLINGS
from gateway.platforms.signing import FORMS, OWN, SignatureForm
from gateway.platforms.webhook import MEMBER, OWNER, SPEC
from gateway.platforms.webhook.pointers import Source, read_source
from hermes_base.errors import ConfigProblem
from hermes_net.address_rules import AddressRules, find_fault, read_numeric, read_rules

ONE = "one"
SHORTEST_SECRET = 16
#: Headers in which services name a request, so that it can be told when it comes again.
USUAL_IDS = ("idempotency-key", "x-github-delivery", "webhook-id")


@dataclass(frozen=True, slots=True)
class HookRules:
    """A hook as its settings make it."""

    secrets: tuple[str, ...]  # the first signs what we send
    form: SignatureForm
    texts: tuple[tuple[str, Source], ...] = ()  # label and where it stands; empty: as usual
    conversation: Source | None = None  # None: all is one
    ids: tuple[Source, ...] = ()
    events: tuple[tuple[Source, frozenset[str]], ...] = ()
    reply_url: str = ""
    may_call: AddressRules = field(default_factory=AddressRules)


def read_hook(given: Mapping[str, Any]) -> HookRules:
    """The rules of a hook; ConfigProblem for what is missing or wrong."""
    if _text(given, "role", MEMBER) not in (MEMBER, OWNER):
        raise _wrong("role", f"must be {MEMBER} or {OWNER}")
    secrets = _read_secrets(given)
    _check_shared(given, secrets)
    rules = read_rules(given.get(PRIVATE) or ())
    wanted = given.get("conversation")
    id = given.get("id")
    return HookRules(
        secrets,
        _read_form(given),
        tuple(_read_texts(given.get("text"))),
        None if wanted in (None, "", ONE) else _source("conversation", wanted),
        (_source("id", id),) if id else tuple(map(read_source, USUAL_IDS)),
        tuple(_read_events(given.get("events"))),
        _read_reply_url(given, rules),
        rules,
    )


def describe_hook(given: Mapping[str, Any], home: Path) -> str:
    """Which hook these settings make, in a sentence; ConfigProblem when they make none."""
    del home
    hook = read_hook(given)
    where = f"/hooks/{SPEC.name}/{given.get('account') or SPEC.name}"
    kept = "your page" if _text(given, "role") == OWNER else "`hermes sessions`"
    at_home = f"stay in its conversation, which {kept} shows, and are told in the home channel of its person"
    answers = "are sent to its reply_url" if hook.reply_url else at_home
    return f"The hook is asked with POST at {where}, below the address of this Hermes; its answers {answers}."


def _read_secrets(given: Mapping[str, Any]) -> tuple[str, ...]:
    secrets = tuple(filter(None, (_text(given, "secret"), _text(given, "old_secret"))))
    variable = _name_variable()
    fix = f"Put one of {SHORTEST_SECRET} signs or more into .env, as {variable} or {variable}_NAME for the hook NAME."
    if not _text(given, "secret"):
        raise ConfigProblem("A hook without a secret takes nothing, since anybody could speak through it.", fix=fix)
    if min(map(len, secrets)) < SHORTEST_SECRET:
        raise ConfigProblem("The secret of the hook is too short to be one.", fix=fix)
    return secrets


def _check_shared(given: Mapping[str, Any], secrets: Sequence[str]) -> None:
    """A signature does not say for which hook it is: whoever has the secret of one that may less could speak through
    one that may more (G1)."""
    if _text(given, "role", MEMBER) != OWNER:
        return
    lesser = [one for one in given.get(SIBLINGS) or () if one.get("role") != OWNER]
    theirs = {str(one.get(name) or "").strip() for one in lesser for name in ("secret", "old_secret")}
    if theirs.intersection(secrets):
        raise ConfigProblem(
            f"This hook speaks as the {OWNER}, and a hook that does not has the same secret: whoever may sign for that "
            "one could speak through this one. It takes nothing.",
            fix=f"Give it a secret of its own in .env: {_name_variable()}_NAME for the hook NAME.",
        )


def _name_variable() -> str:
    return next(question.env for question in SPEC.setup if question.key == "secret")


def _read_form(given: Mapping[str, Any]) -> SignatureForm:
    form = FORMS.get(_text(given, "signature", OWN))
    if form is None:
        raise _wrong("signature", f"must be one of {', '.join(FORMS)}")
    header = _text(given, "signature_header").lower()
    return replace(form, header=header) if header else form


def _read_texts(given: Any) -> list[tuple[str, Source]]:
    """One source, several, or several with labels."""
    if given is None:
        return []
    if isinstance(given, Mapping):
        return [(str(label), _source("text", source)) for label, source in given.items()]
    return [("", _source("text", source)) for source in (given if isinstance(given, list | tuple) else [given])]


def _read_events(given: Any) -> list[tuple[Source, frozenset[str]]]:
    if given is None:
        return []
    if not isinstance(given, Mapping):
        raise _wrong("events", 'must be a section such as {"/action": "opened"}')
    return [(_source("events", source), _read_values(value)) for source, value in given.items()]


def _read_values(value: Any) -> frozenset[str]:
    every: Sequence[Any] = value if isinstance(value, list | tuple) else [value]
    return frozenset("true" if one is True else "false" if one is False else str(one) for one in every)


def _read_reply_url(given: Mapping[str, Any], rules: AddressRules) -> str:
    url = _text(given, "reply_url")
    if not url:
        return ""
    try:
        parts = urlsplit(url)
        host = parts.hostname or ""
        is_one = parts.scheme in ("http", "https") and bool(host) and parts.port != 0
    except ValueError:
        is_one = False
    if not is_one:
        raise _wrong("reply_url", "must begin with http:// or https:// and name a host")
    address = read_numeric(host)
    if address is not None and (fault := find_fault(host, address, rules)):
        raise ConfigProblem(f"reply_url names {host}: {fault.why}.", fix=fault.fix or "Name another address.")
    return url


def _source(name: str, given: Any) -> Source:
    if not isinstance(given, str):
        raise _wrong(name, "must be a pointer such as /issue/title, or the name of a header")
    try:
        return read_source(given)
    except ValueError as error:
        raise _wrong(name, str(error)) from error


def _text(given: Mapping[str, Any], name: str, default: str = "") -> str:
    value = given.get(name)
    if value is None or value == "":
        return default
    if not isinstance(value, str):
        raise _wrong(name, "must be text: put quotes around it")
    return value.strip()


def _wrong(name: str, says: str) -> ConfigProblem:
    return ConfigProblem(f"{name} of the hook {says}.", fix=f"Correct platforms.{SPEC.name} in the settings.")
