"""One gateway with everything that shows an answer, and somebody who looks at a conversation through all of it."""

import io
import re
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

from api_house import ApiHouse
from waiting import wait_until
from web_house import PageState, Stream, Visitor

from agent.turn.driver import EXCUSES
from gateway.platforms import platform_list
from gateway.platforms.pretend.adapter import PretendAdapter, describe
from gateway.platforms.pretend.service import PretendRules, PretendService
from gateway.turns.run_turn import GOING_ON
from hermes_base.chat import Event, Idle, Notice, TextDelta, TurnEnded
from hermes_base.errors import HermesError
from hermes_base.inbound import ANSWER, Address
from hermes_base.local_wire import Hello
from hermes_base.turn.journal import Row, shown_text
from hermes_cli.chat.local_client import LocalClient, LocalConnection, connect
from hermes_cli.chat.terminal_plain import PlainView, Shows
from hermes_cli.chat.terminal_render import Renderer
from hermes_cli.chat.terminal_view import TerminalView
from hermes_cli.chat.terminal_words import BEGINS_ANEW, Display

PATIENCE = 120.0
ACCOUNT = "bot"
_NOTICE = "\x1b[33m!"
_SAID = re.compile(r"\x1b\[1m.*?\x1b\[0m\n")  # what others said stands between the lines of a text
_EXCUSED = [f"[{excuse}]" for excuse in EXCUSES.values()]  # turns that ended without an answer


class EveryHouse(ApiHouse):
    """A gateway with the page, the API, the socket of the terminals, and a chat service."""

    def __init__(self, home: Path, base_url: str, rules: PretendRules | None = None, **settings: Any) -> None:
        self.service = PretendService(rules or PretendRules())
        pretend = {"enabled": True, "account": ACCOUNT, "owner": "ann"}
        super().__init__(home, base_url, platforms={"pretend": pretend}, **settings)

    def start(self) -> None:
        platform_list.register(
            describe(self.service.rules),
            lambda account, given, home: PretendAdapter(account, {**given, "service": self.service}, home),
        )
        super().start()

    def stop(self) -> None:
        super().stop()
        platform_list.unregister("pretend")

    def visit(self, **headers: str) -> Visitor:
        """Somebody at the page, who came by the printed address."""
        assert self.server is not None
        self._visitors.append(visitor := Visitor(self.url, headers))
        assert visitor.http.get(self.server.address).status_code == 303
        return visitor

    def write_in_chat(self, chat: str, text: str) -> None:
        """Ann writes; a direct message each."""

        async def write() -> None:
            self.service.say(chat, text)

        self.run(write())

    def chat_key(self, chat: str) -> str:
        return Address("pretend", ACCOUNT, chat).conversation(self.gateway.parts.profile)

    def wait_done(self, conversation: str) -> None:
        """Until every message of the conversation is dealt with and all that was said has arrived."""
        turns = self.gateway.turns
        wait_until(
            lambda: not turns.open_seqs(conversation) and conversation not in self.gateway.lanes.at_work, PATIENCE
        )

    def transcript(self, conversation: str) -> list[str]:
        """What the assistant said there, as people are shown it."""
        said = [row for row in self._rows(conversation) if row.message["content"] not in _EXCUSED]
        return [text for row in said if (text := shown_text(row).partition("[interrupted: ")[0].strip())]

    def excuses(self, conversation: str) -> list[str]:
        """What stands there in the place of answers that never came."""
        return [shown_text(row) for row in self._rows(conversation) if row.message["content"] in _EXCUSED]

    def _rows(self, conversation: str) -> list[Row]:
        session = self.gateway.store.current(conversation)
        assert session is not None
        rows = self.gateway.store.load(session.id).rows
        return [row for row in rows if row.message["role"] == "assistant"]

    def answers(self, conversation: str, platform: str = "") -> list[str]:
        """The answers in the outbox, or those for one platform, without the word on who stopped them."""
        rows = self.gateway.turns.outbox_since(conversation, 0)
        ends = [row.outgoing for row in rows if row.outgoing.kind == ANSWER and row.outgoing.level != "error"]
        ends = [end for end in ends if platform in ("", end.address.platform)]
        return [text for end in ends if (text := end.text.removesuffix(f"({end.reason})").strip())]

    def count_ends(self, conversation: str) -> int:
        """Turns that have ended there, however they did."""
        return sum(row.outgoing.kind == ANSWER for row in self.gateway.turns.outbox_since(conversation, 0))


class Terminals:
    """A terminal that looks at a conversation in each way a terminal can: with a screen, without one, into a pipe."""

    def __init__(self, home: Path, name: str, conversation: str) -> None:
        self.events: list[Event] = []
        display = Display(markdown=False, tool_progress="off")
        self._view = TerminalView(display, Renderer(lambda: 100_000), clock=lambda: 0.0)
        self._letters, self._texts, self._answer = io.StringIO(), io.StringIO(), io.StringIO()
        self._plain = [
            PlainView(out, io.StringIO(), notes, display, shows)
            for out, notes, shows in (
                (self._letters, WordOnVoidText(self._letters), Shows.LETTERS),
                (self._texts, io.StringIO(), Shows.TEXTS),
                (self._answer, io.StringIO(), Shows.ANSWER),
            )
        ]
        self._home = home
        self.client = LocalClient(Hello(name, conversation=conversation), self._reach)
        self.client.open()
        threading.Thread(target=self._follow, daemon=True).start()

    def _reach(self, _tell: Callable[[Event], None], is_over: Callable[[], bool]) -> LocalConnection:
        """Comes back whenever the gateway does."""
        found: list[LocalConnection] = []

        def try_once() -> bool:
            made = None if is_over() else connect(self._home)
            found.extend([made] if made else [])
            return bool(found) or is_over()

        wait_until(try_once, PATIENCE)
        if not found:
            raise HermesError("closed")
        return found[0]

    def _follow(self) -> None:
        for event in self.client.events():
            self._view.show(event)
            for view in self._plain:
                view.show(event)
            self.events.append(event)

    def count(self, kind: type) -> int:
        return sum(isinstance(event, kind) for event in list(self.events))

    @property
    def streamed(self) -> int:
        """Characters of text that have come live."""
        return sum(len(event.text) for event in list(self.events) if isinstance(event, TextDelta))

    def wait_ended(self, turns: int = 1) -> None:
        wait_until(lambda: self.count(TurnEnded) >= turns, PATIENCE)

    def wait_idle(self) -> None:
        wait_until(lambda: self.count(Idle) > 0, PATIENCE)

    def check(self, texts: list[str], answers: list[str]) -> None:
        """C7: the texts are there, each once; what is void stands before the word that says so, or nowhere. The last
        text of each turn is its answer."""
        assert squeeze(self._texts.getvalue()) == squeeze(" ".join(texts))
        assert squeeze(self._answer.getvalue()) == squeeze(" ".join(answers))
        screen = squeeze(_drop_words_between(self._view.pop_finished()))
        for notice in (event for event in self.events if isinstance(event, Notice) and event.level == "info"):
            screen = squeeze(screen.replace(squeeze(notice.text), ""))
        valid = screen.split(f"! {squeeze(BEGINS_ANEW)}")[-1]
        letters = join(self._letters.getvalue())  # a word of somebody else may break a line anywhere
        valid_letters = letters.split(join(BEGINS_ANEW))[-1]
        last = squeeze(answers[-1]) if answers and answers[-1] == texts[-1] else ""
        for text in map(squeeze, texts[:-1] if last else texts):
            assert (screen.count(text), letters.count(join(text))) == (1, 1), (text, screen, letters)
        # Of an answer that was stopped, a void text may have the beginning.
        shown = valid.count(last), valid_letters.count(join(last))
        assert not last or (shown == (1, 1) and letters.endswith(join(last))), (last, screen, letters)

    def close(self) -> None:
        self.client.close()


class WordOnVoidText(io.StringIO):
    """What a plain terminal says beside the text; the word that the text above is void is put behind that text."""

    def __init__(self, text: io.StringIO) -> None:
        super().__init__()
        self._text = text

    def write(self, words: str) -> int:
        return self._text.write(words) if BEGINS_ANEW in words else super().write(words)


def _drop_words_between(screen: str) -> str:
    """Without what the house and others said between the lines of a text; the word that a text is void stays."""
    lines = _SAID.sub("", screen).replace(f"{GOING_ON}\n", "").splitlines()
    return "\n".join(line for line in lines if not line.startswith(_NOTICE) or BEGINS_ANEW in line)


def check_page(stream: Stream, texts: list[str], excuses: list[str]) -> None:
    """C7: what the page shows of the turn when it ends, and afterwards, is what the transcript has."""
    wait_until(lambda: _has_settled(list(stream.events), len(texts) + len(excuses)), PATIENCE)
    events = list(stream.events)
    last = max(place for place, event in enumerate(events) if event["type"] == "settled")
    live = squeeze(_replay(events[:last]).live_text)
    assert squeeze(" ".join(texts)).endswith(live), (live, texts)
    shown = [text for text in _replay(events).texts("assistant") if text.strip() and text not in excuses]
    assert list(map(squeeze, shown)) == list(map(squeeze, texts))


def _has_settled(events: list[dict[str, Any]], texts: int) -> bool:
    """Whether these are all events of so many texts: a page may be behind the store."""
    state = _replay(events)
    is_open = bool(state.waiting) or state.live is not None
    return (
        not is_open and any(event["type"] == "settled" for event in events) and len(state.texts("assistant")) >= texts
    )


def _replay(events: list[dict[str, Any]]) -> PageState:
    state = PageState()
    for event in events:
        state.take(event)
    return state


def squeeze(text: str) -> str:
    return " ".join(text.split())


def join(text: str) -> str:
    return "".join(text.split())
