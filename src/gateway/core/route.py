"""What becomes of a message: `route` is pure, looks at the message and at the state of its conversation, and returns
one decision. The order of its checks is the whole policy."""

import math
from dataclasses import dataclass, field

from gateway.core.people import is_own, may_answer, may_keep, may_run, may_stop, may_talk
from hermes_base import command_table
from hermes_base.inbound import NOTICE, QUEUE, STEER, WAYS, Inbound
from hermes_base.settings import GatewaySettings
from hermes_base.turn.consent import cut_name, describe_named, describe_ways, is_consent, is_kept, read_consent

MAX_WAITING = 100  # messages of one conversation that may wait
MAX_DEPTH = 5  # turns in a row that a message may interrupt
#: What there is already of a message that comes again, edited: it waits; it was begun or dealt with; or a newer edit.
OPEN, ANSWERED, NOTHING_NEW = "open", "answered", "nothing new"


@dataclass(frozen=True, slots=True)
class Drop:
    """Nothing happens and nobody is told; `reason` goes to the log."""

    reason: str


@dataclass(frozen=True, slots=True)
class ReplyAtOnce:
    """One sentence back, without a turn; `once`: what has this name in its conversation is not said again."""

    text: str
    level: str = "info"
    once: str = ""


@dataclass(frozen=True, slots=True)
class AnswerQuestion:
    """The text answers the question that is open."""

    question: str
    text: str


@dataclass(frozen=True, slots=True)
class RunCommand:
    """A slash command; `plugin` when a plugin brought it."""

    name: str
    args: str
    plugin: bool = False


@dataclass(frozen=True, slots=True)
class Queue:
    """It waits for the end of the turn under way; `told` says so to the sender."""

    told: str = ""


@dataclass(frozen=True, slots=True)
class Steer:
    """It goes into the turn under way at its next step."""


@dataclass(frozen=True, slots=True)
class Interrupt:
    """The turn under way stops, and the next one goes on with both messages."""


@dataclass(frozen=True, slots=True)
class StartTurn:
    """It starts a turn."""


Decision = Drop | ReplyAtOnce | AnswerQuestion | RunCommand | Queue | Steer | Interrupt | StartTurn


@dataclass(frozen=True, slots=True)
class Standing:
    """Who a sender is to us."""

    person: str  # id of the person; empty: a stranger
    role: str  # a name from `gateway.core.people.ROLES`; empty: a stranger


@dataclass(frozen=True, slots=True)
class OpenQuestion:
    id: str
    kind: str  # approval, clarification, confirmation
    choices: tuple[str, ...]
    asked: str  # id of the person whose turn asked
    shown: float | None = None  # when it stood before the person; None: it is still on its way
    # A message from later than now is from before the clock was set back.
    now: float = field(default=math.inf, compare=False)
    asked_role: str = ""  # as what that person asks
    elsewhere: bool = False  # it is asked in another conversation than that of its turn
    covered: bool = False  # a model said or asked something else there after it


@dataclass(frozen=True, slots=True)
class ConversationView:
    """The state of a conversation and of the gateway, as far as `route` looks at it."""

    sender: Standing
    busy: bool = False  # a turn is under way
    starter: str = ""  # the person whose turn it is
    coming: str = ""  # while none is under way: the person whose turn begins next
    steerable: bool = True  # False: the turn under way takes nothing in, or this message has to have its own
    depth: int = 0  # how many turns in a row were interrupted by a message
    busy_mode: str = GatewaySettings().busy  # interrupt, steer, queue
    question: OpenQuestion | None = None
    awaits_each: bool = False  # the sender waits for what becomes of each message
    names_seen: bool = False  # the platform's clients say which question the writer of a text saw
    anothers: bool = False  # it is the direct chat of somebody else
    replied: str = ""  # the question whose message this one replies to
    waiting: int = 0  # messages of this conversation that wait before this one
    behind_command: bool = False  # one of them is a command, which decides where this one is answered
    refusals: int = 0  # messages in a row, just before this one, for which there was no room
    closing: bool = False  # the gateway is shutting down
    earlier: str = ""  # of a message that we know: "", or one of OPEN, ANSWERED, NOTHING_NEW
    group_allowed: bool = True  # False: the settings leave this group out
    group_open: bool = False  # rules of this group let members speak without a mention
    needs_mention: bool = True
    members_approve: bool = False  # members may approve commands of their own turns
    plugin_commands: frozenset[str] = frozenset()


# --- sentences

NOTHING_RUNS = "Nothing is running."
NOT_YOUR_TURN = "Somebody else's turn is under way: only they or an admin may stop it."
SOMEBODY_ELSES = (
    "This is the direct chat of somebody else, so what you wrote here was not read, and nothing of theirs is shown. "
    "Write to Hermes in a direct chat of your own."
)
NOT_YOUR_QUESTION = "This question is for somebody else to answer."
EDITED_LATE = (
    "You changed a message that was dealt with already, so the change was not read. "
    "To have it answered anew, write it again."
)
NOT_SEEN = (
    "This was written before the question was shown, so it is not its answer, and nothing was decided. "
    "Read the question, then answer it."
)
QUESTION_CLOSED = "This question was closed before: it was answered, or its time was over. This changed nothing."
SAID_ALONE = (
    "A turn of somebody else asks the question above, so a word alone does not answer it: nothing was decided, and "
    "nothing was passed on. {how} If it was for the model, say it again."
)
SAID_SINCE = (
    "Something else was said here after the question, or you replied to something else, so nothing was decided. {how}"
)
HOW_TO_NAME = "To answer the question, use its buttons or reply to its message, where there are such, or say {named}."
NOT_A_CHOICE = "That is not one of the choices. {ways}. The question is still open."
NOT_YOURS_TO_KEEP = (
    "Only the owner or an admin may allow something for longer than once. Nothing was allowed; the question is still "
    "open."
)
ROLE_TOO_LOW = "/{name} is for people with a higher role than yours. Nothing was changed."
TEXT_MISSING = "Say what you want to ask: /{name} TEXT"
NO_COMMAND = "There is no command /{name}. {hint}"
TOO_MANY = (
    f"{MAX_WAITING} messages wait already, so this one was not taken, nor is any other until there is room. "
    "Send it again after the next answer; /stop stops the turn under way."
)
QUEUED = "Queued: it is answered when the turn under way has ended, and so is what you write until then."
QUEUED_COMMAND = "Queued: /{name} runs when the turn under way has ended."
QUEUED_OTHERS = "Queued: somebody else's turn is under way; yours comes after it, with what you write until then."
QUEUED_BEHIND = "Queued: it comes after the command that waits for the end of the turn under way. /stop stops the turn."
QUEUED_UNSTEERABLE = "Queued: the turn under way takes nothing in now; this is answered when it has ended."
QUEUED_DEEP = (
    f"Queued: {MAX_DEPTH} turns in a row were interrupted, so the one under way runs to its end first. /stop stops it."
)
QUEUED_CLOSING = "Kept: Hermes is shutting down; it is answered when Hermes runs again."


# --- the policy


def route(inbound: Inbound, view: ConversationView) -> Decision:
    """One message, one decision: the first check that has something to say decides."""
    is_known = may_talk(view.sender.role)
    if inbound.origin == NOTICE:
        # What Hermes says to itself is no person's, so no rule about people applies but one: it is said for whoever
        # spoke last, and nothing is said for somebody who was removed (G3). Nor is it refused in a flood: nobody would
        # say it again.
        if not is_known:
            return Drop("its person was removed")
        return Queue() if view.busy or view.closing else StartTurn()
    if not is_known:  # strangers do not come through the door; whoever is one here was removed since they wrote
        return Drop("a stranger")
    if inbound.address.kind != "dm":
        # In a group also a command or an answer has to be meant for us; a pressed button is ours by itself.
        if not view.group_allowed:
            return Drop("a group that is left out")
        if not (inbound.mentioned or inbound.question or view.group_open or not view.needs_mention):
            return Drop("not for us")
    elif view.anothers:
        return ReplyAtOnce(SOMEBODY_ELSES, "warning")
    # An edit of what still waits goes on as the newer text; the caller closes the older.
    if view.earlier == NOTHING_NEW:
        return Drop("an edit that changes nothing, or older than what is known")
    if view.earlier == ANSWERED:
        return ReplyAtOnce(EDITED_LATE, once=f"edited:{inbound.stem}")
    decision = None
    if inbound.choice or inbound.question or view.question is not None:
        decision = _answer_question(inbound, view)
    if decision is None and "/" in inbound.text:
        decision = _run_command(inbound, view)
    if decision is not None:
        return decision
    if not inbound.text.strip() and not inbound.files:
        return Drop("empty")
    if view.closing:
        return Queue(QUEUED_CLOSING)
    if view.waiting >= MAX_WAITING:
        return _refuse_flood(view)
    return _join_busy(inbound, view) if view.busy else StartTurn()


def _answer_question(inbound: Inbound, view: ConversationView) -> Decision | None:
    question = view.question
    if inbound.choice and not inbound.question:
        return Drop("a button of no question")
    if inbound.question and (question is None or inbound.question != question.id):
        return ReplyAtOnce(QUESTION_CLOSED)
    if question is None:
        return None
    no_choice = ReplyAtOnce(NOT_A_CHOICE.format(ways=describe_ways(question.kind, question.choices)))
    if inbound.question:
        pressed = question.choices[int(inbound.choice) :][:1] if inbound.choice.isdecimal() else ()
        answer = pressed[0] if pressed else read_answer(question, inbound.text)
        return _take_answer(question, answer, view) or no_choice
    if inbound.files or inbound.way or is_command(inbound):
        return None
    named = read_named(question, inbound.text)
    if named is not None:
        return _take_answer(question, read_answer(question, named), view) or no_choice
    answer = read_answer(question, inbound.text)
    if answer not in question.choices and not _may_answer(question, view):
        return None  # free text of somebody else is a message like any other, and must not be lost
    decision = _take_answer(question, answer, view)
    if not isinstance(decision, AnswerQuestion) or view.replied == question.id:
        return decision
    return _weigh_bare(inbound, question, view, decision)


def _weigh_bare(
    inbound: Inbound, question: OpenQuestion, view: ConversationView, answer: AnswerQuestion
) -> Decision | None:
    """G4: a text that says nothing of which question it answers. It answers one that its writer had read, so one
    message answers one question at most: the next one is shown after it. It never answers what somebody else's turn
    asks, nor gives consent when something else was said since: it may well be meant for that."""
    was_shown = question.shown is not None and question.shown < inbound.received <= question.now
    was_seen = inbound.seen == question.id if view.names_seen else was_shown
    is_choice, sender = answer.text in question.choices, view.sender
    if view.replied:
        return ReplyAtOnce(QUESTION_CLOSED) if is_choice else None
    how = HOW_TO_NAME.format(named=describe_named(question.id, question.kind, question.choices))
    is_last = was_seen and (view.names_seen or not (question.covered or inbound.reply_to))
    if question.elsewhere or not is_own(sender.role, sender.person, question.asked, question.asked_role):
        return ReplyAtOnce(SAID_ALONE.format(how=how), "warning") if is_last else None
    if not was_seen:
        return ReplyAtOnce(NOT_SEEN, "warning") if is_choice else None
    if question.kind != "clarification" and not is_last:
        return ReplyAtOnce(SAID_SINCE.format(how=how), "warning")
    return answer


def _take_answer(question: OpenQuestion, answer: str, view: ConversationView) -> Decision | None:
    if not answer:
        return None
    if not _may_answer(question, view):
        return ReplyAtOnce(NOT_YOUR_QUESTION)
    if is_kept(question.kind, question.choices, answer) and not may_keep(view.sender.role):
        return ReplyAtOnce(NOT_YOURS_TO_KEEP, "warning")
    return AnswerQuestion(question.id, answer)


def _run_command(inbound: Inbound, view: ConversationView) -> Decision | None:
    asked = None if inbound.way else command_table.parse(inbound.text)
    if asked is None:
        return None
    command, args = asked
    if command is None:
        name = inbound.text.split()[0].removeprefix("/")
        if name.lower() in view.plugin_commands:  # nobody knows what it touches, so it never runs beside a turn
            return _run_in_order(RunCommand(name.lower(), args, plugin=True), view)
        near = command_table.close_matches(name, view.plugin_commands)
        hint = f"Did you mean {' or '.join(near)}?" if near else "/help lists the commands."
        return ReplyAtOnce(NO_COMMAND.format(name=name, hint=hint), "warning")
    if not may_run(view.sender.role, command, args):
        return ReplyAtOnce(ROLE_TOO_LOW.format(name=command.name), "warning")
    if command.name in WAYS:  # with a text it would be a message
        return ReplyAtOnce(TEXT_MISSING.format(name=command.name))
    run = RunCommand(command.name, args)
    if command.name == "stop":
        return _run_stop(run, inbound, view)
    return run if command.when_busy == command_table.NOW else _run_in_order(run, view)


def _refuse_flood(view: ConversationView) -> Decision:
    """A run of refusals is told once, or the refusals themselves would be a flood; a program hears each of them, as the
    answer to its request."""
    knows = view.refusals and not view.awaits_each
    return Drop("too many wait, and the sender knows") if knows else ReplyAtOnce(TOO_MANY, "warning")


def _join_busy(inbound: Inbound, view: ConversationView) -> Decision:
    """What follows a command that waits is not said to the turn under way, unless it asks for that: it waits, too (C3).
    And not even an admin's message touches the turn of somebody else; for that there is `/stop`."""
    mode = inbound.way or view.busy_mode
    if view.behind_command and not inbound.way:
        return Queue(QUEUED_BEHIND)
    if mode == QUEUE:
        return Queue(QUEUED)
    if _whose_turn(inbound, view) != view.sender.person:
        return Queue(QUEUED_OTHERS)
    if mode == STEER:
        return Steer() if view.steerable else Queue(QUEUED_UNSTEERABLE)
    return Interrupt() if view.depth < MAX_DEPTH else Queue(QUEUED_DEEP)


def _whose_turn(inbound: Inbound, view: ConversationView) -> str:
    """A turn that nobody started (a notice did) belongs, in a direct chat, to whoever is there."""
    return view.starter or (view.sender.person if inbound.address.kind == "dm" else "")


# --- commands


def _run_in_order(run: RunCommand, view: ConversationView) -> Decision:
    """It takes a place among what waits, so there has to be room for it as for a message."""
    if view.waiting >= MAX_WAITING:
        return _refuse_flood(view)
    return Queue(QUEUED_COMMAND.format(name=run.name)) if view.busy else run


def _run_stop(run: RunCommand, inbound: Inbound, view: ConversationView) -> Decision:
    if not view.busy and not view.coming:
        return ReplyAtOnce(NOTHING_RUNS)
    if not may_stop(view.sender.role, view.sender.person, view.coming or _whose_turn(inbound, view)):
        return ReplyAtOnce(NOT_YOUR_TURN, "warning")
    return run


def is_command(inbound: Inbound) -> bool:
    """Whether a message is carried out by Hermes itself; otherwise it is for the model."""
    return not inbound.way and "/" in inbound.text and command_table.parse(inbound.text) is not None


# --- answers to questions

_YES = frozenset({"y", "yes", "ok", "okay", "allow", "approve", "approved"})
_NO = frozenset({"n", "no", "deny", "denied", "refuse", "reject", "decline", "cancel"})


def read_answer(question: OpenQuestion, text: str) -> str:
    """The answer that a text gives: the choice that it names, in any case, by number or by a word for yes or no; where
    the question takes free text, the text itself. Empty: it is no answer to this question."""
    if is_consent(question.kind, question.choices):
        return read_consent(question.choices, text)
    said = _normalise(text)
    exact = text if text in question.choices else ""
    named = next((choice for choice in question.choices if said and _normalise(choice) == said), "")
    numbered = {str(number): choice for number, choice in enumerate(question.choices, 1)}.get(said, "")
    chosen = exact or named or numbered or _find_meant(question, said)
    return chosen or (text.strip() if question.kind == "clarification" else "")


def read_named(question: OpenQuestion, text: str) -> str | None:
    """What a text that names the question says beside its name: `yes 7F3A`, `no 7F3A: not today`, `7F3A yes`. None: it
    names none; a name within a sentence is chance."""
    cut = cut_name(question.id, text) if question.choices else None
    if cut is None:
        return None
    before, after = cut
    if before and read_answer(question, before) not in question.choices:
        return None
    return ": ".join(filter(None, (before, after)))


def _normalise(text: str) -> str:
    return text.strip().rstrip(".!").casefold()


def _find_meant(question: OpenQuestion, said: str) -> str:
    """Only where it is sure which choice is the yes: a confirmation puts it first."""
    if question.kind != "confirmation" or len(question.choices) != 2:
        return ""
    yes, no = question.choices
    return yes if said in _YES else no if said in _NO else ""


def _may_answer(question: OpenQuestion, view: ConversationView) -> bool:
    sender = view.sender
    allowed = view.members_approve
    return may_answer(question.kind, sender.role, sender.person, question.asked, allowed, question.asked_role)
