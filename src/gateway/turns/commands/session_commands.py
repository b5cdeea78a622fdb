"""Slash commands that change what a conversation is: begun anew, gone back to, branched, shortened, taken back, asked
again."""

from collections.abc import Collection
from dataclasses import replace
from datetime import datetime

from agent.turn.conversation import Exchange
from gateway.core.people import may_stop
from gateway.platforms.platform_list import spec_of
from gateway.turns.commands.command_scene import CommandScene, Result, tell_anew, tell_cost, tell_who_answers
from gateway.turns.endings import NEW
from gateway.turns.run_turn import Again
from gateway.turns.sessions import find_session, list_sessions
from hermes_base.errors import HermesError, Interrupted
from hermes_base.inbound import as_fields
from hermes_base.text.foreign import OTHERS
from hermes_state.store import SessionInfo
from hermes_state.store_journal import StoreJournal
from run_agent import AIAgent
from tools.files import file_changes

LISTED = 15
NOT_YOUR_QUESTION = "Somebody else asked the last question: only they or an admin may take it back."
NOT_YOUR_FILES = "Somebody else's turn changed files last: only they or an admin may take that back."
COMPACTED_AWAY = (
    "There is nothing more to take back: what was said before was summarised. The whole conversation is kept; "
    "/resume finds it."
)


def start_new(scene: CommandScene) -> Result:
    """End the session and all that works for its task; the next message opens another one."""
    current = scene.parts.store.current(scene.key)
    if current is not None:
        scene.parts.endings.end_session(current, NEW)
    told = tell_who_answers(scene) if scene.parts.endings.end_choice(scene.key) else []
    return Result(["A new conversation. The old one is kept; /resume finds it.", *told], end_session=NEW)


def resume(scene: CommandScene) -> Result:
    """Without an id: what there is; with one: go on there, which moves a client that can be moved, and brings over what
    the person said elsewhere to a chat that stays where it is. A group goes on with its own."""
    store, address, person = scene.parts.store, scene.item.inbound.address, scene.plan().scope.person_id
    joins = spec_of(address.platform).joins
    within = None if joins or address.kind == "dm" else scene.key
    if not scene.args:
        found = list_sessions(store, LISTED, conversation=within, person=person)
        if not found:
            return Result(["There is no earlier conversation yet."])
        ending = "Go on with one of them: /resume ID (the beginning of the id is enough)"
        return Result([*(_session_line(info, scene.key) for info in found), ending])
    info = find_session(store, scene.args, conversation=within, person=person)
    line = f"Going on with {info.id}: {info.title or info.preview} ({info.messages} messages)"
    if info.conversation != scene.key and joins:
        scene.parts.endings.resume(info)
        return Result([line], moved=info.conversation)
    current, wanted = store.current(scene.key), info.id
    if current is not None and current.id == info.id:
        return Result([line])
    if info.conversation != scene.key:
        wanted = store.branch(info.id, conversation=scene.key, current=False).id
        line = f"{line}, in a copy here, {wanted}. There it stays as it is."
    told = tell_who_answers(scene) if scene.parts.endings.leave_session(scene.key, wanted) else []
    return Result([line, *told], go_on_in=wanted)


def branch(scene: CommandScene) -> Result:
    current = scene.parts.store.current(scene.key)
    if current is None or not current.version:
        return Result(["There is nothing to branch from yet."])
    new = scene.parts.store.branch(current.id, current=False)
    scene.parts.endings.let_agent_go(scene.key, new.id, "branched")
    line = f"Going on in a copy, {new.id}. The old conversation stays as it is: /resume {current.id}"
    return Result([line], go_on_in=new.id)


def compress(scene: CommandScene) -> Result:
    lines = tell_cost(scene)
    with scene.agent() as agent:
        try:
            changed = agent.compress_now(scene.args or None)
        except Interrupted as stop:
            return Result([f"Interrupted: {stop.what}. Nothing was compacted, and nothing was changed."])
    if changed is None:
        return Result(["There is nothing to compress."])
    said = f"Compacted from {changed[0]} to {changed[1]} messages. The whole conversation stays in the store."
    return Result([*lines, said])


def undo(scene: CommandScene) -> Result:
    """The row that takes back and the answer are one transaction, so that a crash cannot take back twice."""
    if scene.args.strip().lower() == "files":
        return undo_files(scene)
    said: list[str] = []
    origins: list[str] = []
    with scene.agent(lambda _: [replace(scene.note("\n".join(said)), origins=tuple(origins))]) as agent:
        exchange = agent.last_exchange()
        if exchange is None:
            return Result([describe_nothing(agent, "There is nothing to take back.")])
        _require_own(scene, {exchange.asked_by}, NOT_YOUR_QUESTION)
        last = agent.context_compressor.get_status()["last_prompt_tokens"]
        about = agent.estimate_tokens(exchange.place) if exchange.place else 0
        said += tell_anew(min(about, last) if last else about)
        said.append(f"Taken back: {exchange.text[:200]}")
        origins += find_origins(scene, exchange)
        agent.take_back_last_turn(last=True)
        journal = agent.journal
        assert isinstance(journal, StoreJournal)
        return Result(closed=journal.closed)


def find_origins(scene: CommandScene, exchange: Exchange) -> tuple[str, ...]:
    """What of a question is foreign to whoever takes it back or has it asked again: all of it, if somebody else asked
    it (G9)."""
    others = () if exchange.asked_by == scene.person else (OTHERS,)
    return tuple(dict.fromkeys((*exchange.foreign, *others)))


def describe_nothing(agent: AIAgent, nothing: str) -> str:
    """Why there is no question any more: there was none, or it was summarised."""
    return COMPACTED_AWAY if agent.is_compacted else nothing


def _require_own(scene: CommandScene, people: Collection[str], refusal: str) -> None:
    """C16: in a group only whoever's turn did something, or an admin, takes it back or has it done again."""
    sender = scene.item.view.sender
    is_own = all(may_stop(sender.role, sender.person, person) for person in people)
    if scene.item.inbound.address.kind != "dm" and not is_own:
        raise HermesError(refusal, kept="It stands as it was.")


def undo_files(scene: CommandScene) -> Result:
    """What the last turn that changed files did to them, taken back after a look at the diff."""
    current = scene.parts.store.current(scene.key)
    task = current.task if current else ""
    plan = scene.plan()
    home, secrets = scene.parts.home / plan.scope.folder, plan.settings.files.secrets
    diff = file_changes.describe(home, task, secrets) if task else ""
    if not diff:
        return Result(["No turn of this conversation has changed files."])
    _require_own(scene, file_changes.find_people(home, task), NOT_YOUR_FILES)
    if not scene.confirm(f"This would be undone:\n\n{diff}", "undo", "keep"):
        return Result(["The files stay as they are."])
    restored = file_changes.undo_last_turn(home, task)
    scene.parts.whereabouts.tell_model(scene.key, "[The person took back your last changes to files.]")
    return Result([f"Restored: {path}" for path in restored])


def retry(scene: CommandScene) -> Result:
    """Take the last question back and ask it again, as the turn of this message.

    What is about to be done is noted first, with the version it is done to: after a crash it is done once.
    """
    steps = scene.parts.store.turns.steps(scene.key, scene.item.row.seq)
    noted = [step.body for step in steps if step.kind == "takes_back"]
    with scene.agent() as agent:
        standing = list(agent.journal.standing())
        if noted and noted[0]["standing"] != standing:
            return Result(again=Again(noted[0]["text"], tuple(noted[0]["parts"]), tuple(noted[0]["foreign"])))
        exchange = agent.last_exchange()
        if exchange is None:
            return Result([describe_nothing(agent, "There is no question to ask again.")])
        _require_own(scene, {exchange.asked_by}, NOT_YOUR_QUESTION)
        again = Again(exchange.text, exchange.parts, find_origins(scene, exchange))
        agent.journal.step("takes_back", {**as_fields(again), "standing": standing})
        agent.take_back_last_turn()
    return Result(again=again)


def _session_line(info: SessionInfo, here: str) -> str:
    moment = datetime.fromtimestamp(info.updated).strftime("%Y-%m-%d %H:%M")
    elsewhere = "" if info.conversation == here else f" ({spec_of(info.platform).label})"
    return f"{info.id}  {moment}  {info.title or info.preview}{elsewhere}"
