"""Tells a conversation that a background process of its task has ended: as a message of our own that the model
answers, or as a note to the person. Nobody who was removed is told anything (G3)."""

import logging
import time
import uuid
from typing import TYPE_CHECKING

from hermes_base.chat import Notice
from hermes_base.errors import StoreFailure
from hermes_base.inbound import NOTE, NOTICE, Inbound, Outgoing, write_inbound

if TYPE_CHECKING:
    from gateway.service.gateway import Gateway

log = logging.getLogger(__name__)

STORE_PAUSE = 1.0
ELSEWHERE = "It belongs to an earlier conversation, which goes on with: /resume {session}"


class ProcessNotices:
    """Its `post` is what a tool gets as `post_notice`; called on a thread that may wait for the store."""

    def __init__(self, gateway: "Gateway") -> None:
        self._gateway = gateway

    def post(self, task: str, id: str, text: str) -> None:
        """Certain, once: nobody says it again, so it is tried until it is stored or the gateway ends."""
        name = f"proc:{id}:{uuid.uuid4().hex[:6]}"
        while True:
            try:
                return self._post(task, name, text)
            except StoreFailure as problem:
                if self._gateway.closing:
                    raise
                log.warning("the end of a process of %s is not stored yet: %s", task, problem)
                time.sleep(STORE_PAUSE)

    def _post(self, task: str, name: str, text: str) -> None:
        """Where its session is the one that the conversation goes on in, the model is told and answers; where the
        conversation goes on elsewhere (`/resume`), the person is told, and how to go back."""
        gateway = self._gateway
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
