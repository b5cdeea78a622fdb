"""The driver of a turn: performs the steps that the rules decide on. A turn owns its state, and it ends with it.

Each finished message is committed when it is finished, together with its call's usage; the last one ends the turn.
"""

import logging
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

from agent.formats.multimodal import find_parts, fit_words, label_image
from agent.formats.repair import clean_message, repair_messages, unknown_result, write_reply
from agent.formats.reply import Reply, ToolCall
from agent.formats.wire import AnswerReader
from agent.turn import rules
from agent.turn.compaction import BYTES_A_TOKEN, LEAST_KEPT, Wanted, compact, estimated_tokens, fit_text, guarded
from agent.turn.conversation import TOLD, WRITTEN_BY, Conversation, PrefixBreak
from agent.turn.leaving_out import leave_out
from agent.turn.model_call import ModelCaller, ShownText, trim_start
from agent.turn.parallel import run_in_order
from agent.turn.ports import Ports, TurnFacts
from agent.usage_pricing import CanonicalUsage, ledger_row
from hermes_base.chat import LastingNotice, Notice
from hermes_base.errors import Interrupted, ModelFailure
from hermes_base.text.foreign import FOREIGN, SAID_BY
from hermes_base.text.whole_text import clean_text
from hermes_base.turn.indirect import unwrap_text
from hermes_base.turn.journal import (
    EARLY_ENDS,
    ENDED_EARLY,
    EXCUSE,
    LOST,
    STEERED,
    Row,
    TurnEnd,
    UsageRow,
    open_calls,
    text_of,
)

log = logging.getLogger(__name__)

#: What stands in the transcript when a turn ends without an answer of the model.
EXCUSES = {
    "empty": "The model gave no answer, although it was asked again.",
    "budget": "The turn ended at its limit of steps before the work was done.",
    "repeated": "The model made the same call again and again, so the turn was ended.",
    "refused": "The model refused to answer.",
    "failed": "The model could not answer; this message is kept and has not been answered.",
}


#: How much of the window tools, prompt and messages may fill, and what messages get at least.
MOST_OF_WINDOW, LEAST_ROOM = 0.85, 4_000
CUT_MESSAGE = (
    "Your message is longer than a quarter of the model's window. The model gets its beginning and its end; the whole "
    "is kept."
)

#: Kinds of steps in the journal, for whoever goes on with the turn.
TOOL_STARTED, TOOL_ASKS, TOOL_ANSWERED, TOOL_ENDED = "tool_started", "tool_asks", "tool_answered", "tool_ended"
NOT_APPROVED = '{"error": "not run: nobody had approved it when its turn was cut; it may be asked for again"}'
NOT_STARTED = '{"error": "not run: its turn was cut before this call began"}'


@dataclass(frozen=True, slots=True)
class Steering:
    """What the person puts into a running turn."""

    text: str
    inbox: tuple[int, ...] = ()


@dataclass
class TurnResult:
    text: str = ""
    completed: bool = False
    interrupted: bool = False
    reason: str = ""
    error: str = ""
    api_calls: int = 0
    usage: CanonicalUsage = field(default_factory=CanonicalUsage)
    breaks: list[PrefixBreak] = field(default_factory=list)
    unread: list[str] = field(default_factory=list)  # steering that came too late


@dataclass(frozen=True, slots=True)
class TurnMessage:
    """What the person said, and what the model is told beside it."""

    text: str  # whole characters only
    facts: str = ""
    parts: tuple[dict[str, Any], ...] = ()  # images, in the neutral form
    inbox: tuple[int, ...] = ()  # the accepted messages that it is made of
    goes_on: bool = False  # its turn broke off with its process; what is given here is what is not stored yet
    told: str = ""  # date and folder, where the model was not told before

    @classmethod
    def of(
        cls, given: str | Sequence[Mapping[str, Any]], inbox: tuple[int, ...] = (), *, goes_on: bool = False
    ) -> "TurnMessage":
        """A text, or a list of parts as OpenAI's format has them."""
        text, parts = (given, ()) if isinstance(given, str) else (text_of({"content": list(given)}), given)
        images = tuple(label_image(part) for part in parts if part.get("type") != "text")
        return cls(text if text.isascii() else clean_text(text), parts=images, inbox=inbox, goes_on=goes_on)

    @property
    def empty(self) -> bool:
        return not self.text and not self.parts


class Turn:
    def __init__(
        self, ports: Ports, conversation: Conversation, message: TurnMessage, facts: TurnFacts, limits: rules.TurnLimits
    ) -> None:
        self.conversation = conversation
        self.result = TurnResult()
        self._ports = ports
        self._message = message
        self._facts = facts
        self._limits = limits
        self._caller = ModelCaller(ports, facts)
        self._message_taken = message.goes_on and message.empty
        self.facts_told = False  # whether the notes that came along with the message are stored
        self._late_facts = ""  # of a message that stands as it was sent (A3): the next result takes them, for the model
        self._calls_in_round = 1
        self._steering: list[Steering] = []
        self._steering_lock = threading.Lock()
        self._over = False
        self._step_lock = threading.Lock()  # held across the write of a step: none is under way when the turn is over
        self._repairs = 0  # compactions that the provider asked for, since it last answered
        self._stream: AnswerReader | None = None  # the answer being read
        self._shown = ShownText(ports)  # what the person sees of the last model call
        self._held: tuple[dict[str, Any], UsageRow] | None = None  # an answer that ends the turn unless steered on

    def steer(self, text: str, inbox: tuple[int, ...] = ()) -> bool:
        """Put a text into the running turn; the model reads it at the next step. False: the turn is over."""
        with self._steering_lock:
            if not self._over:
                self._steering.append(Steering(text, inbox))
            return not self._over

    def run(self) -> TurnResult:
        """Play the rules to their end; leaves a transcript in which every call has its result."""
        plan = rules.converse(self._limits, goes_on=self._message.goes_on)
        outcome, done = None, None
        try:
            while done is None:
                self._ports.cancel.check()
                try:
                    step = plan.send(outcome)
                except StopIteration as end:
                    done = end.value
                else:
                    outcome = self._performers[type(step)](self, step)
            self._end(done)
        except Interrupted as stop:
            plan.close()
            self._end_interrupted(stop)
        finally:
            with self._steering_lock, self._step_lock:
                self._over = True
        self.result.text, self.result.error = map(self._ports.redact, (self.result.text, self.result.error))
        self.result.unread = [said.text for said in self._steering]  # too late for this turn; the host goes on with it
        self.result.api_calls = self._caller.calls
        self.result.breaks += self._caller.breaks
        return self.result

    def abandon(self, reason: str) -> TurnResult:
        """Close a turn that broke off too often or too long ago, without asking the model again."""
        self._end_interrupted(Interrupted(reason))
        self.result.text = self._ports.redact(self.result.text)
        return self.result

    # --- one performer for each step

    def _take_message(self, _: rules.TakeMessage) -> None:
        said, recall = self._message.text, self._ports.recall
        edited: str | None = None
        added: list[str] = []
        if self._ports.hooks.has("pre_llm_call"):
            edited, given = self._caller.ask_plugins_for_context(said, self._message.parts, self.conversation)
            added = [self._fit(clean_text(piece), len(given) + 1) for piece in given]  # beside what is remembered
        if recall is not None:
            added = [*added, self._fit(clean_text(recall(said, self.conversation.messages)), 1)]
        self._store_message(edited, added)

    def _store_message(self, edited: str | None = None, added: Sequence[str] = ()) -> None:
        """What the person said stands in the conversation, whole: images and what the model is told beside it too.
        `edited` is what a plugin made of the text that is sent."""
        text, told = self._message.text, self._message.told
        sent = text if edited is None else clean_text(edited)
        as_sent = "\n\n".join(part for part in (self._fit(sent), told, self._message.facts, *added) if part)
        content: Any = as_sent
        if self._message.parts:
            content = [{"type": "text", "text": as_sent}, *self._message.parts]
        message = {"role": "user", "content": content} | ({TOLD: told} if told else {})
        self._append(message, shown=text, inbox=self._message.inbox)
        self._message_taken = self.facts_told = True

    def _take_up(self, step: rules.TakeUp) -> None:
        del step
        self._late_facts = self._message.facts if self._message_taken else ""
        self._settle_calls()
        if not self._message_taken:
            self._take_message(rules.TakeMessage())

    def _settle_calls(self) -> None:
        """Give every call that was left open, by a process before us or by a stop, the result that it kept, or a word
        on what is known of it."""
        steps = self._ports.journal.steps()
        self.conversation.call_ids.update(step.body["call"] for step in steps if "call" in step.body)
        ended = {step.body["call"]: step.body["result"] for step in steps if step.kind == TOOL_ENDED}
        started, asks, answered = (
            {step.body["call"] for step in steps if step.kind == kind}
            for kind in (TOOL_STARTED, TOOL_ASKS, TOOL_ANSWERED)
        )
        for origin in (origin for step in steps for origin in step.body.get(FOREIGN, ())):
            self._ports.foreign.note(origin)
        lost = any(step.kind == LOST for step in steps)  # then nobody knows of any call that it was not begun
        for call in open_calls(self.conversation.messages):
            if call in ended:
                self._append_text(call, str(ended[call]))
            elif not lost and call in asks - answered:
                self._append({"role": "tool", "tool_call_id": call, "content": NOT_APPROVED})
            elif lost or call in started:
                self._append(unknown_result(call))
            else:
                self._append({"role": "tool", "tool_call_id": call, "content": NOT_STARTED})

    def _call_model(self, step: rules.CallModel) -> Reply | ModelFailure:
        ports = self._ports
        ports.touch("waiting for the model")
        dialect = ports.model.dialect
        # What a plugin may put in the place of an answer is not shown before it has.
        shown = self._shown = ShownText(ports, live=not ports.hooks.has("transform_llm_output"))
        self._stream = dialect.format.read_answer(dialect.name, shown.text.feed, shown.reasoning.feed)
        try:
            limited = step.until is not None  # it failed before
            patience = step.find_patience(time.monotonic(), ports.model.could_switch) if limited else None
            reply = self._caller.call(self.conversation, self._stream, with_tools=step.with_tools, patience=patience)
        except ModelFailure as failure:
            log.info("a model call failed: %s", failure)  # the person is told by a notice
            shown.flush()
            shown.take_back()
            if failure.began:  # it was paid for, and nobody told how much
                ports.journal.charge([self._ledger_row(None)])
            self._stream = None
            return failure
        finally:
            shown.flush()
        self._stream = None
        self._repairs = 0
        self.result.usage += reply.usage or CanonicalUsage()
        spent = self._ledger_row(reply.usage)
        if not reply.text.strip() and not reply.tool_calls:
            self._shown.take_back()
            self._ports.journal.charge([spent])
            return reply
        given = write_reply(reply)  # in the form in which it will be sent back
        for part in given.get("tool_calls", ()):
            part["id"] = self._ports.redact(part["id"])  # results are found by it
        message = repair_messages([given], self.conversation.call_ids)[0]
        parts = message.get("tool_calls", ())
        calls = tuple(ToolCall(p["id"], p["function"]["name"], p["function"]["arguments"]) for p in parts)
        if calls:
            self._append(message, usage=spent)
            self._shown.keep(self._ports.redact(message["content"]))
        else:
            self._held = message, spent
        return replace(reply, tool_calls=calls)

    def _run_tools(self, step: rules.RunTools) -> None:
        self._ports.touch("running tools")
        self._calls_in_round = len(step.calls)
        if step.refusal:
            for call in step.calls:
                self._append_result(call, step.refusal)
            return
        try:
            run_in_order(step.calls, self._run_one, self._append_result, self._ports.cancel, self._note_work)
        except Interrupted:
            for left in open_calls(self.conversation.messages):
                self._append(unknown_result(left))
            raise

    def _run_one(self, call: ToolCall) -> str:
        """What is done is noted before and, where results wait for each other, after: it may not be done twice. What
        waits for its first answer has done nothing yet, and that is noted, too."""
        name = unwrap_text(call.name, call.arguments)
        self._note_step(TOOL_STARTED, {"call": call.id, "name": self._ports.redact(name)})

        def note_question(answered: bool) -> None:
            self._note_step(TOOL_ANSWERED if answered else TOOL_ASKS, {"call": call.id})

        ids, said = self._caller.name_call(), self.conversation.messages
        result = self._ports.hands.run(call, **ids, messages=said, note_question=note_question)
        if self._calls_in_round > 1:
            kept = {"call": call.id, "result": self._ports.redact(clean_text(result))}
            self._note_step(TOOL_ENDED, {**kept, FOREIGN: list(self._ports.foreign.noted)})
        return result

    def _note_step(self, kind: str, body: Mapping[str, Any]) -> None:
        """The journal writes for whichever turn it is bound to; a call that was left behind belongs to none."""
        with self._step_lock:
            if self._over:
                raise Interrupted("the turn of this call is over")
            self._ports.journal.step(kind, body)

    def _note_work(self) -> None:
        """A tool that takes its time is silence, unless something of the task is seen to work (C12)."""
        if self._ports.hands.is_working():
            self._ports.touch("running tools")

    def _append_result(self, call: ToolCall, result: str) -> None:
        self._append_text(call.id, result)

    def _append_text(self, call: str, result: str) -> None:
        """A result that would fill the window is sent as its beginning and its end; the whole is stored (E9)."""
        text = clean_text(result)
        fit = partial(self._fit, sharers=self._calls_in_round)
        fitted = fit(text) if find_parts(text) is None else fit_words(text, fit)
        message = {"role": "tool", "tool_call_id": call, "content": fitted}
        self._append(message, shown=None if fitted == text else text)

    def _fit(self, text: str, sharers: int = 0) -> str:
        """A text as it is sent: at most a quarter of the window, and half of it for all results of a round together
        (E9). Without `sharers` a person said it, who is told when that is not all of it (E8)."""
        window = self._ports.model.context_length * BYTES_A_TOKEN
        limit = max(LEAST_KEPT, min(window // 4, window // 2 // max(1, sharers)))
        fitted = fit_text(text, limit, f"{self.conversation.session}, message {self.conversation.version}")
        if not sharers and fitted != text:
            self._ports.emit(Notice(CUT_MESSAGE, "warning"))
        return fitted

    def _compact(self, step: rules.Compact) -> bool:
        ports, engine = self._ports, self._ports.engine
        if not (ports.compression_enabled or step.forced) or not self.conversation.messages:
            return False
        coming = "" if self._message_taken else self._message.text
        frozen = sum(map(len, self._caller.frozen_parts(self.conversation, ports.model.dialect)))
        tokens = guarded(estimated_tokens, engine, self.conversation, coming, frozen) or 0
        is_full = tokens > ports.model.context_length * MOST_OF_WINDOW > 0
        if not (step.forced or is_full or guarded(engine.should_compress, tokens)):
            return False
        ports.touch("compacting the conversation")
        self._repairs += step.forced
        harder = 2 ** max(0, self._repairs - 1)
        # Bytes of the window that messages may take: an answer needs some of it too. 0: nobody knows the window.
        window = ports.model.context_length * BYTES_A_TOKEN
        fixed = frozen + min(len(coming), window // 4)
        room = max(LEAST_ROOM, int(window * MOST_OF_WINDOW) - fixed) if window else 0
        shorter = compact(ports, self.conversation, Wanted(tokens, step.forced, room=room // harder))
        if shorter is None:
            return False
        self.conversation = shorter
        self.result.breaks += shorter.take_break()
        return True

    def _switch(self, step: rules.SwitchProvider) -> bool:
        return self._ports.model.switch(step.failure)

    def _leave_out(self, step: rules.LeaveOut) -> bool:
        return leave_out(self._ports, self.conversation, step.failure)

    def _recover(self, step: rules.RecoverTransport) -> bool:
        return self._ports.model.recover(step.failure, self._ports.cancel.pause)

    def _pause(self, step: rules.Pause) -> None:
        self._ports.touch("waiting to try again")
        if step.seconds > 1:
            self._ports.emit(Notice(f"{step.failure.what} Trying again in {step.seconds:.0f} s.", "warning"))
        self._ports.cancel.pause(step.seconds)

    def _tell(self, step: rules.Tell) -> None:
        self._append({"role": "user", "content": step.text}, shown="")

    def _take_steering(self, _: rules.TakeSteering) -> bool:
        with self._steering_lock:
            said, self._steering = self._steering, []
        more = ""
        if self._held is not None and not said and self._ports.hooks.has("pre_verify"):
            more = self._caller.ask_plugins_for_more(self._held[0], self.conversation.messages)
        if (said or more) and self._held is not None:
            message, usage = self._held
            self._held = None
            self._append(message, usage=usage)
            self._shown.keep(self._ports.redact(message["content"]))
        if more:
            self._append({"role": "user", "content": more}, shown="")
        for each in said:
            text = clean_text(each.text)
            message = {"role": "user", "content": self._fit(text), STEERED: True}
            self._append(message, shown=text, inbox=each.inbox)
        return bool(said or more)

    _performers: dict[type, Callable[["Turn", Any], Any]] = {
        rules.TakeMessage: _take_message,
        rules.TakeUp: _take_up,
        rules.CallModel: _call_model,
        rules.RunTools: _run_tools,
        rules.Compact: _compact,
        rules.SwitchProvider: _switch,
        rules.LeaveOut: _leave_out,
        rules.RecoverTransport: _recover,
        rules.Pause: _pause,
        rules.Tell: _tell,
        rules.TakeSteering: _take_steering,
    }

    # --- the end

    def _end(self, done: rules.Done) -> None:
        result = self.result
        result.completed, result.reason = done.completed, done.reason
        if done.failure is not None:
            self._ports.model.note_failure(done.failure)
        if self._held is not None:
            message, usage = self._held
            early = done.reason if done.reason in EARLY_ENDS else ""
            is_replaced, text = self._ports.hooks.has("transform_llm_output"), message["content"]
            result.text = trim_start(self._replace_answer(text) if is_replaced else text)
            self._shown.correct(self._ports.redact(result.text))
            marked = {**message, ENDED_EARLY: early} if early else message
            self._append(marked, usage=usage, end=TurnEnd(result.text, done.completed, reason=early))
            if early:
                self._ports.emit(LastingNotice(EARLY_ENDS[early], "warning"))
        else:
            excuse = EXCUSES[done.reason]
            result.text = done.text or excuse
            result.error = str(done.failure) if done.failure else excuse
            message = {"role": "assistant", "content": f"[{excuse}]", EXCUSE: True}
            self._append(message, end=TurnEnd(result.error, False, failed=True))

    def _end_interrupted(self, stop: Interrupted) -> None:
        """What was read so far stays, with a word on who stopped it; no call is left without its result."""
        if open_calls(self.conversation.messages):
            self._settle_calls()
        if not self._message_taken:
            self._store_message()
        text = trim_start(clean_text(self._stream.text)) if self._stream is not None else ""
        result = self.result
        result.text, result.interrupted, result.reason = text, True, stop.what
        usage = self._ledger_row(None) if self._stream is not None else None
        if self._held is not None:
            message, held_usage = self._held
            result.text = trim_start(message["content"])
            self._shown.correct(self._ports.redact(result.text))
            self._append(message, usage=held_usage, end=TurnEnd(result.text))  # it was whole when it was stopped
            return
        if self._stream is not None:
            self._shown.correct(self._ports.redact(text))
        mark = f"[interrupted: {stop.what}]"
        message = {"role": "assistant", "content": f"{text}\n\n{mark}" if text else mark}
        self._append(message, usage=usage, end=TurnEnd(text, False, True, stop.what))

    def _replace_answer(self, text: str) -> str:
        """What the first plugin that has something to say puts in the place of an answer."""
        replaced = self._ports.hooks.invoke(
            "transform_llm_output",
            response_text=text,
            session_id=self._facts.session,
            model=self._ports.model.model,
            platform=self._facts.platform,
        )
        return clean_text(next((answer for answer in replaced if isinstance(answer, str) and answer), text))

    # --- writing

    def _append(
        self,
        message: dict[str, Any],
        *,
        shown: str | None = None,
        usage: UsageRow | None = None,
        inbox: tuple[int, ...] = (),
        end: TurnEnd | None = None,
    ) -> None:
        """Take a message into the transcript: secrets out, marked with whose words these are and what the turn has read
        since the last row (G9), encoded once. With `end` it is the last one, and ends the turn."""
        redact, model = self._ports.redact, self._ports.model
        dialect = model.dialect
        if end is not None:
            shown = end.text or message["content"]
        if self._late_facts and message["role"] == "tool" and find_parts(message["content"]) is None:
            shown = message["content"] if shown is None else shown
            message = {**message, "content": f"{message['content']}\n\n{self._late_facts}"}
            self._late_facts, self.facts_told = "", True
        message = clean_message(message, redact)
        if message["role"] == "user" and shown != "" and self._facts.sender:
            message[SAID_BY] = [self._facts.sender]
        known = self.conversation.marks.origins
        fresh = [origin for origin in self._ports.foreign.noted if origin not in known]
        if fresh:
            message[FOREIGN] = fresh
        if message["role"] == "assistant":
            trimmed = trim_start(message["content"])
            shown = trimmed if shown is None and trimmed != message["content"] else shown
            message[WRITTEN_BY] = f"{model.provider}/{model.model}"
        shown = None if shown is None else redact(shown)
        row = Row(message, shown, {dialect.name: dialect.encode(message)}, inbox=inbox)
        spent = [usage] if usage else []
        if end is None:
            version = self._ports.journal.append([row], spent)
        else:
            ended = replace(end, text=redact(end.text), origins=self._ports.foreign.origins)
            version = self._ports.journal.finish([row], spent, ended)
        self.conversation.note([row], version)

    def _ledger_row(self, usage: CanonicalUsage | None) -> UsageRow:
        return ledger_row(usage, self._ports.model.provider, self._ports.model.model, turn=self._facts.turn)
