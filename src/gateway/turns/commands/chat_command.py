"""`/chat`: shows and sets model, instructions and tools of one chat, in the settings file, whose comments stay."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from types import MappingProxyType

from agent.providers.table import PROVIDERS, lookup_provider
from gateway.core.chat_settings import CHATS, FIELDS, ChatSettings, read_chat
from gateway.platforms.platform_list import spec_of
from gateway.turns.commands.command_scene import CommandScene
from hermes_base.account_names import drop_account, read_accounts
from hermes_base.conversation_key import ConversationKey, parse_key
from hermes_base.errors import HermesError
from hermes_cli import config as cli_config
from tools.registry import registry
from tools.toolsets import PLATFORM_TOOLSETS

OFF, RESET = "off", "reset"
INSTRUCTION_CHARS = 8_000
TOLD_MODEL = "[The instructions for this chat have changed. They are now: {text}]"
TOLD_NONE = "[The instructions for this chat were taken back. There are none now.]"
ALL_ACCOUNTS = "What stands in {place} of `config.yaml` holds for this chat of every account, and stays."
USE = "Say /chat model NAME, /chat instructions TEXT, /chat toolsets A,B (or off in place of each), or /chat reset."


def read_choice(words: Sequence[str]) -> tuple[str, str]:
    """Model and provider of `NAME`, `PROVIDER NAME`, or a provider alone."""
    if len(words) > 2:
        raise HermesError("That is too much for a model's name.", fix="Type: /model NAME, or /model PROVIDER NAME.")
    if len(words) == 2:
        return words[1], words[0]
    found = lookup_provider(words[0])  # a short name of one of ours may be a model's name, too
    is_provider = found is not None and (found.profile is not None or words[0].lower() in PROVIDERS)
    return ("", words[0]) if is_provider else (words[0], "")


def change_chat(scene: CommandScene) -> Sequence[str]:
    key = parse_key(scene.key)
    spec = spec_of(key.platform)
    if spec.always_on:
        raise HermesError(
            f"{spec.label}: its conversations come and go, and have no settings of their own.",
            fix="/model chooses a model for this one; `hermes config set` changes what holds for all.",
        )
    word, _, value = scene.args.strip().partition(" ")
    if not word:
        return list(_describe(scene, key))
    change = CHANGES.get(word.lower())
    if change is None or bool(value.strip()) is (word.lower() == RESET):
        raise HermesError("That is no way to use it.", kept="Nothing was changed.", fix=USE)
    before = _read(key).instructions
    lines = change(scene, _section(key), value.strip())
    shared = _find_shared(key)
    if shared and value.strip().lower() in ("", OFF):
        lines = [*lines, ALL_ACCOUNTS.format(place=".".join(shared))]
    after = _read(key).instructions
    if after != before:  # what holds counts, wherever it is set
        scene.parts.whereabouts.tell_model(scene.key, TOLD_MODEL.format(text=after) if after else TOLD_NONE)
    return lines


def _section(key: ConversationKey) -> tuple[str, ...]:
    """Where the settings of the chat stand; a thread has its own, and so has the chat of each of several accounts."""
    section = cli_config.load_last_good().platforms.get(key.platform)
    chat = key.chat if read_accounts(section) else drop_account(section, key.chat)
    return "platforms", key.platform, CHATS, f"{chat}/{key.thread}" if key.thread else chat


def _find_shared(key: ConversationKey) -> tuple[str, ...]:
    """Where settings of the chat stand that hold for each of several accounts; empty: there are none."""
    section = cli_config.load_last_good().platforms.get(key.platform)
    bare = drop_account(section, key.chat)
    name = f"{bare}/{key.thread}" if key.thread else bare
    chats = section.get(CHATS) if read_accounts(section) and isinstance(section, Mapping) else None
    known = {str(id) for id in chats} if isinstance(chats, Mapping) else set()
    return ("platforms", key.platform, CHATS, name) if name in known and bare != key.chat else ()


def _read(key: ConversationKey) -> ChatSettings:
    return read_chat(cli_config.load_last_good(), key.platform, key.chat, key.thread or "")


def _describe(scene: CommandScene, key: ConversationKey) -> Iterator[str]:
    found = _read(key)
    yield f"Settings of this chat ({key.platform} {_section(key)[-1]}):"
    yield f"Model: {' '.join(filter(None, (found.provider, found.model))) or 'the one of all chats'}"
    yield f"Instructions: {found.instructions or 'none of its own'}"
    toolsets = ", ".join(found.toolsets or spec_of(key.platform).toolsets)
    yield f"Tools: {toolsets or 'those of all chats'}"
    if scene.plan().choices.model:
        yield "With /model another one was chosen for the conversation that runs here, until /new."
    yield USE


def _set_model(scene: CommandScene, section: tuple[str, ...], value: str) -> Sequence[str]:
    if value.lower() == OFF:
        return _take_out(section, ("model", "provider"), "This chat has the model of all chats again.")
    model, provider = read_choice(value.split())
    found = scene.parts.builder.find_runtime(cli_config.load_last_good(), model, provider)  # raises what is wrong
    cli_config.set_path((*section, "model"), found.model)
    cli_config.set_path((*section, "provider"), provider or found.provider)
    return [f"{found.model} ({found.label}) answers in this chat from the next message on, unless /model chooses."]


def _set_instructions(scene: CommandScene, section: tuple[str, ...], value: str) -> Sequence[str]:
    if value.lower() == OFF:
        lines = _take_out(section, ("instructions",), "This chat has no instructions of its own any more.")
        left = _read(parse_key(scene.key)).instructions
        return [*lines, f"These still hold here: {left}"] if left else lines
    if len(value) > INSTRUCTION_CHARS:
        raise HermesError(
            f"Instructions have at most {INSTRUCTION_CHARS:,} characters; these have {len(value):,}.",
            kept="Nothing was changed.",
        )
    cli_config.set_path((*section, "instructions"), value)
    return ["Kept. The model hears of it with the next message, and has it in its prompt from the next /new on."]


def _set_toolsets(scene: CommandScene, section: tuple[str, ...], value: str) -> Sequence[str]:
    del scene
    if value.lower() == OFF:
        return _take_out(section, ("toolsets",), "This chat has the tools of all chats from the next /new on.")
    names = [name.strip() for name in value.split(",") if name.strip()]
    groups = registry.toolsets()
    unknown = [name for name in names if name not in groups and name not in PLATFORM_TOOLSETS]
    if unknown or not names:
        what = f"There is no group of tools called {', '.join(unknown)}." if unknown else "That names no tools."
        raise HermesError(what, kept="Nothing was changed.", fix=f"There are: {', '.join(sorted(groups))}.")
    cli_config.set_path((*section, "toolsets"), names)
    return [f"This chat has these tools from the next /new on: {', '.join(names)}."]


def _reset(scene: CommandScene, section: tuple[str, ...], value: str) -> Sequence[str]:
    del scene, value
    return _take_out(section, FIELDS, "This chat has the settings of all chats again.")


def _take_out(section: tuple[str, ...], names: Sequence[str], done: str) -> Sequence[str]:
    gone = [cli_config.unset_path((*section, name)) for name in names]
    return [done if any(gone) else "Nothing of that kind was set for this chat."]


CHANGES: Mapping[str, Callable[[CommandScene, tuple[str, ...], str], Sequence[str]]] = MappingProxyType(
    {"model": _set_model, "instructions": _set_instructions, "toolsets": _set_toolsets, RESET: _reset}
)
