"""Fetches one page: the address is checked as it is written here, and where it leads when it is connected (G8)."""

import re
from collections.abc import Mapping
from urllib.parse import unquote, urldefrag, urlsplit

from hermes_base.errors import ConfigProblem, ToolFailure
from hermes_base.text.addresses import describe_address
from hermes_base.turn.tool_context import ToolContext
from hermes_constants import VERSION
from hermes_net.address_rules import normalise_host, read_rules
from hermes_net.call_values import AddressRefused, AnsweredCall, CallFailed, HttpCall, Resolve
from hermes_net.waited_call import call_and_wait
from tools.web.page_child import read_apart
from tools.web.page_reading import PageFacts
from tools.web.page_store import KeptPage

REDIRECTS = 8
LONGEST_URL = 4_096
_HAS_SCHEME = re.compile(r"[a-z][a-z0-9+.-]*://", re.IGNORECASE)
#: Tests answer for the system's resolver.
resolve: Resolve | None = None
_HEADERS: Mapping[str, str] = {
    "user-agent": f"Mozilla/5.0 (compatible; Hermes/{VERSION})",
    "accept": "text/markdown, text/html;q=0.9, application/pdf;q=0.8, text/*;q=0.8, application/json;q=0.8, */*;q=0.5",
    "accept-language": "en, *;q=0.5",
}
_SIGN_IN = "It wants a sign-in, or lets no programs in."
#: What statuses mean to who wanted to read; others are told by their number.
_STATUSES: Mapping[int, str] = {
    401: _SIGN_IN,
    403: _SIGN_IN,
    404: "There is no such page.",
    407: _SIGN_IN,
    410: "The page is gone.",
    429: "It asks for patience: too many requests came.",
    451: "It is not shown for legal reasons.",
}


def read_url(given: object, context: ToolContext) -> str:
    """The address that is meant, or a ToolFailure: only http and https, without a login, without our secrets (G6)."""
    if not isinstance(given, str) or not given.strip():
        raise ToolFailure("Give the address of a page.")
    url = given.strip()
    url = urldefrag(url if _HAS_SCHEME.match(url) else f"https://{url}").url
    try:
        parts = urlsplit(url)
        host, _ = parts.hostname, parts.port
    except ValueError:
        host = None
    if not host or len(url) > LONGEST_URL or any(sign.isspace() or not sign.isprintable() for sign in url):
        raise ToolFailure("This is no address of a web page.", fix="It is written like https://example.org/page.")
    if parts.scheme not in ("http", "https"):
        raise ToolFailure(f"Addresses with {parts.scheme}: are not fetched.", fix="Use http:// or https://.")
    if "@" in parts.netloc:
        raise ToolFailure("An address with a login in it is not fetched; nothing was sent.")
    if any(context.redact(said) != said for said in (url, unquote(url))):
        raise ToolFailure("The address holds a secret of the configuration, so it was not fetched; nothing was sent.")
    return url


def fetch_page(url: str, context: ToolContext) -> KeptPage:
    """The page as text; ToolFailure with a sentence when there is none."""
    limits = context.settings.web
    call = HttpCall(
        url,
        headers=_HEADERS,
        redirects=REDIRECTS,
        seconds=limits.page_seconds,
        most_bytes=limits.page_megabytes << 20,
        unpacks=True,
    )
    try:
        answer = call_and_wait(call, read_rules(context.settings.network.private), context.cancel, resolve)
    except (AddressRefused, CallFailed, ConfigProblem) as problem:
        if isinstance(problem, AddressRefused) and problem.was_led:
            _note(url, context)
        raise ToolFailure(problem.what, kept=problem.kept, fix=problem.fix) from problem
    _note(answer.url, context)
    _check_status(answer)
    return _read_answer(answer, context)


def _note(url: str, context: ToolContext) -> None:
    """From here on words of the site may come out (G9): also in the address that it leads to, whatever is there."""
    context.foreign.note(f"a web page of {normalise_host(urlsplit(url).hostname or '')}")


def _check_status(answer: AnsweredCall) -> None:
    status = answer.status
    if 200 <= status < 300:
        return
    shown = describe_address(answer.url)
    if 300 <= status < 400:
        raise ToolFailure(f"{shown} cannot be read: it sends on to another address more than {REDIRECTS} times.")
    told = _STATUSES.get(status) or ("The server has a fault; try later." if status >= 500 else "")
    patience = answer.headers.get("retry-after", "")
    wait = f" It can be tried again in {patience} seconds." if patience.isdecimal() and len(patience) < 7 else ""
    raise ToolFailure(f"{shown} cannot be read: status {status}. {told}{wait}".strip())


def _read_answer(answer: AnsweredCall, context: ToolContext) -> KeptPage:
    host = normalise_host(urlsplit(answer.url).hostname or "")
    kind, charset = _read_type(answer.headers.get("content-type", ""))
    page = read_apart(PageFacts(answer.url, kind, charset, answer.cut), answer.body, context.cancel)
    if page.problem:
        raise ToolFailure(f"{describe_address(answer.url)} has nothing to read. {page.problem}")
    most = context.settings.web.page_megabytes
    cut = [f"It is larger than {most} MB; this is its beginning (web.page_megabytes)."] if answer.cut else []
    note = " ".join([page.note, *cut]).strip()
    # Redacted as a whole before it is cut into pages, so that no edge can hide a secret (G6).
    return KeptPage(answer.url, host, context.redact(page.title), context.redact(page.text), note)


def _read_type(header: str) -> tuple[str, str]:
    """The media type and the charset of a Content-Type, in small letters."""
    kind, *parameters = (part.strip() for part in header.split(";"))
    named = dict(part.partition("=")[::2] for part in parameters)
    charset = next((value for name, value in named.items() if name.strip().lower() == "charset"), "")
    return kind.lower()[:100], charset.strip().strip("\"'")[:40]
