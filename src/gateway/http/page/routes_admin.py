"""Calls of the page on Hermes itself: what it is, how it is, what it costs, who is there, and how it is set up."""

from collections.abc import Sequence
from typing import Annotated, Any

from msgspec import Meta, Struct, structs
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route

from gateway.http.calls import (
    NoFields,
    Refusal,
    SmallText,
    answer_nothing,
    bring_between,
    read_message,
    served,
    wrong_field,
)
from gateway.http.page.parts import Parts
from gateway.http.page.views import Json
from hermes_base.query_values import ProviderChoice

LATER_FILE = "web-setup-later"  # it stands there: do not offer the set-up again
#: What an operator may do from the page; ending the gateway is not among it.
OPERATIONS = frozenset(
    {"people.list", "people.approve", "people.remove", "people.role", "turns.stop"}
    | {"approvals.list", "approvals.revoke", "approvals.waiting"}
)


class ChoiceMessage(Struct):
    provider: SmallText = ""
    key: SmallText = ""
    model: SmallText = ""
    base_url: SmallText = ""


class AdminRoutes:
    def __init__(self, parts: Parts) -> None:
        self._parts = parts
        self._gateway = parts.queries.gateway
        self._operations = parts.queries.operations
        self._setup = parts.queries.setup
        self._later = parts.home / LATER_FILE

    def list(self) -> Sequence[BaseRoute]:
        return [
            Route("/web/me", served(self.describe), methods=["GET"]),
            Route("/web/status", served(self.status), methods=["GET"]),
            Route("/web/usage", served(self.usage), methods=["GET"]),
            Route("/web/log", served(self.log), methods=["GET"]),
            Route("/web/operate", served(self.operate), methods=["POST"]),
            Route("/web/settings", served(self.settings), methods=["GET"]),
            Route("/web/settings/{key}", served(self.change), methods=["PUT"]),
            Route("/web/providers", served(self.providers), methods=["GET"]),
            Route("/web/providers/probe", served(self.probe), methods=["POST"]),
            Route("/web/providers/use", served(self.use), methods=["POST"]),
            Route("/web/platforms", served(self.platforms), methods=["GET"]),
            Route("/web/platforms/use", served(self.use_platform), methods=["POST"]),
            Route("/web/setup/later", served(self.put_off), methods=["POST"]),
        ]

    # --- how it is

    async def describe(self) -> Json:
        model = await self._setup.model()
        return {
            "version": self._parts.queries.version,
            "profile": self._parts.queries.profile,
            "model": model,
            # Something better could be set up: only the built-in model answers, or none can be found.
            "needs_setup": (model.built_in or bool(model.problem)) and not self._later.exists(),
            "upload_bytes": self._parts.shelf.most_bytes(),
            "commands": self._setup.commands(),
        }

    async def status(self) -> Any:
        return await self._operations.status({})

    async def usage(self, days: int = 30) -> Any:
        return await self._gateway.usage(bring_between(1, days, 366))

    async def log(self, lines: int = 200) -> Json:
        return {"lines": await self._gateway.log_tail(bring_between(1, lines, 2_000))}

    async def operate(self, name: str, args: dict[str, Any] | None = None) -> Any:
        if name not in OPERATIONS:
            raise wrong_field("name", "must be one of " + ", ".join(sorted(OPERATIONS)))
        return await self._operations.perform(name, args or {})

    # --- how it is set up

    async def settings(self) -> Json:
        return {"settings": await self._setup.settings()}

    async def change(self, request: Request, value: Annotated[str, Meta(max_length=100_000)]) -> Json:
        return {"setting": await self._setup.change(str(request.path_params["key"]), value)}

    async def providers(self) -> Json:
        return {"providers": await self._setup.providers(), "model": await self._setup.model()}

    async def probe(self, request: Request) -> Any:
        return await self._setup.probe(await _read_choice(request))

    async def use(self, request: Request) -> Any:
        return await self._setup.use(await _read_choice(request))

    async def platforms(self) -> Json:
        return {"platforms": await self._setup.platforms()}

    async def use_platform(self, name: SmallText, answers: dict[str, SmallText]) -> Any:
        for key, value in answers.items():
            if not value.strip().isprintable():
                raise wrong_field(key, "must be one line of plain text")
        return await self._setup.use_platform(name, answers)

    async def put_off(self, request: Request) -> Response:
        await read_message(request, NoFields)
        try:
            self._later.touch(0o600)
        except OSError as problem:
            sentence = f"That could not be kept: {problem.strerror}. Check the disk's space and permissions."
            raise Refusal(507, "disk", sentence) from problem
        return answer_nothing()


async def _read_choice(request: Request) -> ProviderChoice:
    given = structs.asdict(await read_message(request, ChoiceMessage))
    choice = {name: value.strip() for name, value in given.items()}
    for name, value in choice.items():
        if not value.isprintable():
            raise wrong_field(name, "must be one line of plain text")
    return ProviderChoice(**choice)
