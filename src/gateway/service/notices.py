"""Tells a conversation that a background process of its task has ended: as a message of our own that the model
answers, or as a note to the person. Nobody who was removed is told anything (G3)."""

import logging
import time
import uuid
from typing import TYPE_CHECKING

from hermes_base.chat import Notice
from hermes_base.inbound import NOTE, NOTICE, Inbound, Outgoing, write_inbound

if TYPE_CHECKING:
    from gateway.service.gateway import Gateway

log = logging.getLogger(__name__)

ELSEWHERE = "It belongs to an earlier conversation, which goes on with: /resume {session}"


class ProcessNotices:
    """Its `post` is what a tool gets as `post_notice`; called on any thread."""

    def __init__(self, gateway: "Gateway") -> None:
        self._gateway = gateway

    def post(self, task: str, id: str, text: str) -> None:
        """Where its session is the one that the conversation goes on in, the model is told and answers; where the
        conversation goes on elsewhere (`/resume`), the person is told, and how to go back."""
        gateway, name = self._gateway, f"proc:{id}:{uuid.uuid4().hex[:6]}"
        session = gateway.store.last_of(task)
        if session is None or not gateway.senders.may_hear(session.conversation):
            log.info("a process of %s ended, and nobody is there to hear of it", task)
            return
        current = gateway.store.current(session.conversation)
        key, address = session.conversation, gateway.address_of(session.conversation)
        if current is None or current.task != task:
            told = Outgoing(address, f"{text}\n{ELSEWHERE.format(session=session.id)}", NOTE)
            if gateway.turns.post(key, name, told):
                gateway.call_soon(gateway.delivery.wake, address)
            return
        inbound = Inbound(address, name, "hermes", text, conversation=key, origin=NOTICE, received=time.time())
        if gateway.turns.accept(key, "house", name, write_inbound(inbound)) is not None:
            gateway.call_soon(gateway.live_events.show, key, Notice(text))
            gateway.call_soon(gateway.wake, key)
