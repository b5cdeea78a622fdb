"""Where requests went that clients of the API may send again, to this gateway or to another one."""

from gateway.turns.threads import StoreFace
from hermes_state.key_store import RepeatRow
from hermes_state.sql.store_sql import Store


class RepeatQueries:
    def __init__(self, store: Store, call: StoreFace) -> None:
        self._repeats, self._call = store.repeats, call

    async def find(self, name: str) -> RepeatRow | None:
        return await self._call(self._repeats.find, name)

    async def keep_first(self, name: str, mark: str, conversation: str, seconds: float) -> RepeatRow:
        """A request of this name goes there, unless another one went before; where it goes."""
        place = RepeatRow(mark, conversation, name)
        return await self._call(lambda: self._repeats.keep(name, place, seconds))

    async def keep_latest(self, name: str, conversation: str, message: str, seconds: float) -> None:
        """The newest request of this name went there."""
        place = RepeatRow("", conversation, message)
        await self._call(lambda: self._repeats.keep(name, place, seconds, anew=True))
