"""Who searches the web: the services of the table, and those that somebody registers; which of them is asked is a
setting, or follows from the keys that are there."""

import threading
from collections.abc import Callable, Mapping, Sequence
from typing import Protocol
from urllib.parse import urlsplit

from hermes_base.errors import ConfigProblem, ToolFailure
from hermes_base.settings import Settings
from hermes_base.text.addresses import check_address
from hermes_base.turn.cancel import CancelToken
from hermes_cli import config
from hermes_constants import VERSION
from hermes_net.address_rules import AddressRules, normalise_host, read_rules
from hermes_net.call_values import AddressRefused, AnsweredCall, CallFailed, HttpCall
from hermes_net.waited_call import call_and_wait
from tools.web.search_table import BY_NAME, SERVICES, ServiceRow, WebHit, read_hits, write_request

SEARCH_SECONDS = 20.0
MOST_BYTES = 4 << 20
SETTING = "web.search_backend"
#: What statuses mean to who searched.
_KEY_REFUSED = "{label} refuses the key{named}."
_USED_UP = "{label} has no searches left for this key: its plan is used up."
_STATUSES: Mapping[int, tuple[str, str]] = {
    400: ("{label} did not understand the query.", "Try other words."),
    401: (_KEY_REFUSED, "`hermes setup web` sets another one."),
    402: (_USED_UP, "The account at {label} needs to be topped up."),
    403: (_KEY_REFUSED, "`hermes setup web` sets another one."),
    422: ("{label} did not understand the query.", "Try other words."),
    429: ("{label} asks for patience: too many searches came, or the plan is used up.", "Try it again later."),
    432: (_USED_UP, "The account at {label} needs to be topped up."),
    433: (_USED_UP, "The account at {label} needs to be topped up."),
}


class SearchService(Protocol):
    """What can search the web; a plugin's provider is wrapped in one of these."""

    name: str  # the value of `web.search_backend`
    label: str

    def find_missing(self, settings: Settings) -> str:
        """What it lacks to be asked, in words; empty: it can be. Asks nobody."""

    def search(self, query: str, limit: int, settings: Settings, cancel: CancelToken) -> Sequence[WebHit]:
        """The hits; ToolFailure with a sentence when there is no answer."""


class TableService:
    """A service of the table. The key is read when it is used, so a new one counts at once."""

    def __init__(self, row: ServiceRow, read_key: Callable[[str], str] = config.env_value) -> None:
        self.name, self.label = row.name, row.label
        self.row = row
        self._read_key = read_key

    def find_missing(self, settings: Settings) -> str:
        if self.row.key_env:
            return "" if self._read_key(self.row.key_env).strip() else f"{self.label} needs a key ({self.row.key_env})"
        return "" if self._address(settings) else f"{self.label} needs an address (web.{self.name}_url)"

    def search(self, query: str, limit: int, settings: Settings, cancel: CancelToken) -> Sequence[WebHit]:
        if missing := self.find_missing(settings):
            raise ToolFailure(f"{missing}, so nothing was searched.", fix="`hermes setup web` asks for it.")
        if len(query) > self.row.longest:
            raise ToolFailure(f"{self.label} takes at most {self.row.longest:,} characters; say it in fewer words.")
        address, key = self._address(settings), self._key()
        asked = write_request(self.row, address, key, query, limit)
        headers = {"user-agent": f"Hermes/{VERSION}", **asked.headers}
        # No redirect is followed: the key would go along.
        call = HttpCall(asked.url, asked.method, headers, asked.body, seconds=SEARCH_SECONDS, most_bytes=MOST_BYTES)
        try:
            check_address(address, place=f"web.{self.name}_url")
            answer = call_and_wait(call, self._rules(settings), cancel)
        except CallFailed as problem:
            # Its words would name the address with the query; whoever asked knows the query.
            raise ToolFailure(f"{self.label} does not answer.", fix="Try it again later.") from problem
        except (AddressRefused, ConfigProblem) as problem:
            raise ToolFailure(problem.what, kept=problem.kept, fix=problem.fix) from problem
        self._check_status(answer)
        return read_hits(self.row, answer.body, limit)

    def _key(self) -> str:
        return self._read_key(self.row.key_env).strip() if self.row.key_env else ""

    def _address(self, settings: Settings) -> str:
        own: str = getattr(settings.web, f"{self.name}_url")
        return own.strip() or self.row.address

    def _rules(self, settings: Settings) -> AddressRules:
        """An address that the owner wrote into the settings may be a private one; metadata never is called."""
        rules = read_rules(settings.network.private)
        own = getattr(settings.web, f"{self.name}_url").strip()
        host = normalise_host(urlsplit(own).hostname or "") if own else ""
        return AddressRules(rules.names | {host}, rules.networks) if host else rules

    def _check_status(self, answer: AnsweredCall) -> None:
        if 200 <= answer.status < 300:
            return
        if answer.status == 403 and self.row.refused:
            raise ToolFailure(f"{self.label} refused. {self.row.refused}")
        usual = f"{{label}} answered with status {answer.status}.", "Try it again later."
        what, fix = _STATUSES.get(answer.status, usual)
        named = f" ({self.row.key_env})" if self.row.key_env else ""
        words = {"label": self.label, "named": named}
        raise ToolFailure(what.format(**words), fix=fix.format(**words))


class SearchServices:
    """All that can be asked, in the order in which they are tried; a name that is taken is not taken away."""

    def __init__(self, services: Sequence[SearchService]) -> None:
        self._lock = threading.Lock()
        self._services: dict[str, SearchService] = {service.name: service for service in services}

    def register(self, service: SearchService) -> bool:
        with self._lock:
            return self._services.setdefault(service.name, service) is service

    def deregister(self, name: str) -> None:
        with self._lock:
            if name not in BY_NAME:
                self._services.pop(name, None)

    def names(self) -> list[str]:
        return list(self._services)

    def find(self, name: str) -> SearchService | None:
        return self._services.get(name)

    def choose(self, settings: Settings) -> SearchService:
        """The service that the settings name, whether it is ready or not; without a name the first that is.
        ConfigProblem when there is none."""
        wanted = (settings.web.search_backend or settings.web.backend).strip().lower()
        if wanted:
            if (named := self._services.get(wanted)) is not None:
                return named
            fix = f"Use one of {', '.join(self._services)}."
            raise ConfigProblem(f"{SETTING} is '{wanted}', and there is no such search service.", fix=fix)
        ready = (service for service in list(self._services.values()) if not service.find_missing(settings))
        if (first := next(ready, None)) is not None:
            return first
        raise ConfigProblem("No search service is set up.", fix="`hermes setup web` asks for one.")

    def find_reader(self, settings: Settings) -> SearchService | None:
        """The plugin's service that reads pages in our place; None: we fetch them ourselves. ConfigProblem when the
        setting names one that does not."""
        named = settings.web.extract_backend.strip().lower()
        found = self._services.get(named or settings.web.backend.strip().lower())
        reads = getattr(found, "reads_pages", None)
        if reads is not None and reads():
            return found
        if named:
            fix = "`hermes config unset web.extract_backend` lets Hermes fetch pages itself."
            raise ConfigProblem(f"web.extract_backend is '{named}', and no plugin of this name reads pages.", fix=fix)
        return None


search_services = SearchServices([TableService(row) for row in SERVICES])
