"""Sends the files of one chat. One that its platform does not take is left out after a while: its message goes without
it, so that nothing behind it waits for ever."""

import logging
import time
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import TYPE_CHECKING

from gateway.core.delivery_rules import FileTries
from gateway.core.text.render import render_parts, render_without_file
from gateway.platforms.face import FRESH_SECONDS, NeverTaken, NotNow, Part
from hermes_base.errors import DeliveryFailure, StoreFailure
from hermes_base.inbound import FileRef, OutboxRow

if TYPE_CHECKING:
    from gateway.delivery.accounts import Account

_log = logging.getLogger(__name__)
_DISK_PAUSE = 60.0  # until one looks again whether the disk has room
DOCUMENT = "answer.md"

Attempt = Callable[..., Awaitable[str]]


class FileSender:
    def __init__(self, account: "Account", key: str) -> None:
        self._account, self._key = account, key
        self._tries = FileTries()

    def why_without(self, row: OutboxRow) -> str:
        """Why this message goes without its file; empty: it goes with it."""
        return self._tries.why_without(row.id)

    def render(self, row: OutboxRow) -> list[Part]:
        """What is sent of this message now."""
        spec, why = self._account.adapter.spec, self.why_without(row)
        if why:
            return render_without_file(row.outgoing, spec, row.id, why)
        return render_parts(row.outgoing, spec, row.id)

    async def send(self, row: OutboxRow, part: Part, file: FileRef, attempt: Attempt) -> str:
        """The platform's id of the message. After a failure, `why_without` says whether the next try is without it."""
        try:
            return await attempt(lambda part: self._send_here(part, file), part, size=file.size)
        except DeliveryFailure as failure:
            self._note_failure(row, failure)
            if isinstance(failure, NeverTaken):
                raise NotNow(str(failure), 0.0) from failure
            raise

    async def _send_here(self, part: Part, file: FileRef) -> str:
        """The file may have been kept by another process."""
        account = self._account
        if account.find_file is not None:
            found = await account.call(account.find_file, file.path)
            if found is None:
                raise NeverTaken("It is nowhere any more.")
            file = replace(file, path=str(found))
        return await account.adapter.send_file(part, file)

    def _note_failure(self, row: OutboxRow, failure: DeliveryFailure) -> None:
        account = self._account
        if isinstance(failure, NeverTaken) or account.adapter.silence < FRESH_SECONDS:
            self._tries = self._tries.note_failure(row.id, failure, time.monotonic(), account.pace)
        if self.why_without(row):
            _log.error("The file of a message to %s in %s is left out: %s", self._key, account.name, failure)

    async def send_document(self, row: OutboxRow, part: Part, attempt: Attempt) -> str:
        """A file that is made for this and goes when it was sent."""
        account, data = self._account, part.document.encode("utf-8", "replace")
        try:
            file = await account.call(account.keep_file, FileRef("", DOCUMENT, size=len(data)), data)
        except OSError as problem:
            failure = NotNow(f"The file could not be written: {problem.strerror}.", _DISK_PAUSE)
            self._note_failure(row, failure)
            raise failure from problem
        try:
            return await self.send(row, part, file, attempt)
        finally:
            await self.drop(file)

    async def drop(self, file: FileRef) -> None:
        """It has arrived, whatever becomes of the copy: one that stays goes with the sweep of old files."""
        try:
            await self._account.call(self._account.drop_file, file)
        except (OSError, StoreFailure) as problem:
            _log.warning("The copy of a file that was sent stays behind: %s", problem)
