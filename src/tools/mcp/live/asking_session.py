"""A session in which the server's own questions are worked on beside everything else.

The SDK answers a question in the loop that reads: while a person thinks, no answer of the server would arrive.
"""

import asyncio
import logging
from contextlib import suppress

import anyio
from mcp.shared.session import RequestResponder

from mcp import ClientSession, types

log = logging.getLogger(__name__)

MOST_OPEN = 8  # questions of one server; whoever asks more is refused
_QUESTIONS = (types.ElicitRequest, types.CreateMessageRequest)
_GONE = (anyio.BrokenResourceError, anyio.ClosedResourceError)

Responder = RequestResponder[types.ServerRequest, types.ClientResult]


class AskingSession(ClientSession):
    _open = 0

    async def _received_request(self, responder: Responder) -> None:
        if not isinstance(responder.request.root, _QUESTIONS):
            await super()._received_request(responder)
        elif self._open >= MOST_OPEN:
            with responder:
                why = f"{MOST_OPEN} questions of this server are open already."
                await responder.respond(types.ErrorData(code=types.INVALID_REQUEST, message=why))
        else:
            self._open += 1
            self._task_group.start_soon(self._answer, responder)

    async def _answer(self, responder: Responder) -> None:
        try:
            await super()._received_request(responder)
        except asyncio.CancelledError:
            if not responder.cancelled:  # the session ends; else the server took it back, which ends nothing else
                raise
        except _GONE:
            return  # nobody waits for it any more
        except Exception:  # the boundary to whoever is asked; the reading goes on
            log.exception("a question of an MCP server failed")
            error = types.ErrorData(code=types.INTERNAL_ERROR, message="It could not be asked.")
            with suppress(*_GONE):
                await self._send_response(responder.request_id, error)
        finally:
            self._open -= 1
