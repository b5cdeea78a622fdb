"""Model, instructions and tools of one chat: what wins, what the model is sent, and `/chat`, which writes it."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from house import House, Visitor
from raw_client import RawClient
from waiting import wait_until

from gateway.core.chat_settings import FIELDS, ChatSettings, find_faults, read_chat
from gateway.turns.commands import chat_command
from hermes_base.conversation_key import parse_key
from hermes_base.inbound import Address
from hermes_base.setting_table import when_owned
from hermes_base.settings import AT_ONCE, NEW_CONVERSATION, NEXT_MESSAGE, Settings
from hermes_cli import config
from hermes_cli.config.config_edit import drop_by_names, parse_yaml, set_by_names
from hermes_lab.server import LabServer

PEOPLE = {"owner": "olga", "allow": ["ann"]}


@pytest.fixture
def house(home: Path, lab: LabServer) -> Iterator[House]:
    with House(home, lab.base_url, pretend=PEOPLE) as made:
        yield made


def last(lab: LabServer) -> dict[str, Any]:
    found: dict[str, Any] = lab.requests[-1].json()
    return found


def tools(lab: LabServer) -> set[str]:
    return {tool["function"]["name"] for tool in last(lab).get("tools", [])}


# --- what wins


def read(section: Any, chat: str = "7", thread: str = "") -> ChatSettings:
    return read_chat(Settings(platforms={"app": section}), "app", chat, thread, ("own",))


def test_the_closest_wins() -> None:
    section = {
        "model": "m-app",
        "provider": "openai",
        "instructions": "be brief",
        "chats": {7: {"model": "m-7", "toolsets": "a, b"}, "7/3": {"instructions": "in rhymes"}},
    }
    assert read(section, "8") == ChatSettings("m-app", "openai", "be brief", ("own",))
    assert read(section) == ChatSettings("m-7", "", "be brief", ("a", "b"))  # the provider goes with its own model
    assert read(section, thread="3") == ChatSettings("m-7", "", "in rhymes", ("a", "b"))
    assert read({}) == read({"chats": []}) == read({"chats": {"7": 5}}) == ChatSettings(toolsets=("own",))
    assert read_chat(Settings(), "app", "7") == ChatSettings()


def test_what_cannot_be_meant_so_is_said() -> None:
    chats = {"7": {"modle": "x", "instructions": 5, "toolsets": 5}, "8": "x"}
    told = list(find_faults({"app": {"chats": chats}, "other": {"chats": []}, "third": 5}))
    assert len(told) == 5
    assert all(sentence.startswith("platforms.") for sentence in told)
    assert list(find_faults({"app": {"chats": {"7": {"model": "x", "toolsets": ["a"]}}}})) == []


def test_when_it_takes_effect() -> None:
    assert when_owned("platforms.app.chats.7.model") == NEXT_MESSAGE
    assert when_owned("platforms.app.chats.7.instructions") == NEW_CONVERSATION
    assert when_owned("platforms.app.token") == AT_ONCE


@pytest.mark.parametrize("key", ["-100200", "'-100200'", '"-100200"'])
def test_a_chat_is_found_however_its_id_is_written(key: str) -> None:
    """H2: comments stay, and no chat stands in the file twice."""
    text = f"platforms:\n  app:\n    chats:\n      {key}: # the family\n        model: old  # slow\n"
    after = set_by_names(text, ["platforms", "app", "chats", "-100200", "model"], "new")
    assert "# the family" in after
    assert "# slow" in after
    (section,) = parse_yaml(after)["platforms"]["app"]["chats"].values()
    assert section == {"model": "new"}
    assert parse_yaml(drop_by_names(after, ["platforms", "app", "chats", "-100200", "model"])) == {}


def test_dots_in_an_id_mean_nothing(home: Path) -> None:
    home.mkdir(exist_ok=True)
    names = ("platforms", "app", "chats", "!room:example.org", "model")
    config.set_path(names, "m")
    assert config.load_settings().platforms["app"]["chats"] == {"!room:example.org": {"model": "m"}}
    assert config.unset_path(names)
    assert not config.unset_path(names)


# --- what the model gets


def test_a_chat_has_its_model_instructions_and_tools(home: Path, lab: LabServer) -> None:
    chats = {"chat-ann": {"model": "small", "instructions": "Answer in rhymes.", "toolsets": ["todo"]}}
    with House(home, lab.base_url, pretend={**PEOPLE, "chats": chats}) as house:
        ann, olga = house.person("ann"), house.person("olga")
        ann.ask("[[say hi]]")
        assert last(lab)["model"] == "small"
        assert "# Instructions for this chat\n\nAnswer in rhymes." in str(last(lab)["messages"][0]["content"])
        assert tools(lab) == {"todo"}
        assert "set for this chat" in ann.ask("/model")[-1]
        ann.ask("/model other")
        ann.ask("[[say hi]]")
        assert last(lab)["model"] == "other"  # the conversation's choice wins
        ann.ask("/new")
        ann.ask("[[say hi]]")
        assert last(lab)["model"] == "small"
        olga.ask("[[say hi]]")
        assert last(lab)["model"] == "lab"
        assert "rhymes" not in str(last(lab)["messages"])
        assert len(tools(lab)) > 5


def test_the_platform_is_behind_the_chat(home: Path, lab: LabServer) -> None:
    pretend = {**PEOPLE, "model": "of-app", "chats": {"chat-ann": {"instructions": "Be kind."}}}
    with House(home, lab.base_url, pretend=pretend) as house:
        house.person("ann").ask("[[say hi]]")
        assert last(lab)["model"] == "of-app"
        assert "Be kind." in str(last(lab)["messages"][0])


# --- /chat


def test_a_chat_is_set_from_the_chat(house: House, lab: LabServer) -> None:
    """A1, A4, A12, H6: another model answers the next message; instructions leave the running prompt alone and reach
    the model by a note, once; the next conversation has them in its prompt."""
    olga = house.person("olga")
    olga.ask("[[say hi]]")
    first = last(lab)["messages"]
    assert "the one of all chats" in olga.ask("/chat")[-1]
    told = olga.ask("/chat instructions Answer in rhymes.\nAlways: yes.")[-1]
    assert "next /new" in told
    olga.ask("[[say hi]]")
    now = last(lab)["messages"]
    assert now[: len(first)] == first
    assert "They are now: Answer in rhymes." in str(now[-1]["content"])
    olga.ask("[[say hi]]")
    assert "They are now" not in str(last(lab)["messages"][-1]["content"])
    told = olga.ask("/chat model small")[-1]
    assert "read anew by the provider" in told
    assert "small" in told
    olga.ask("/chat toolsets todo,memory")
    olga.ask("[[say hi]]")
    assert last(lab)["model"] == "small"
    assert len(tools(lab)) > 5  # those of the running conversation stay (A5)
    olga.ask("/new")
    olga.ask("[[say hi]]")
    assert "Answer in rhymes.\nAlways: yes." in str(last(lab)["messages"][0]["content"])
    assert tools(lab) == {"todo", "memory"}
    shown = olga.ask("/chat")[-1]
    assert all(word in shown for word in ("small", "rhymes", "todo, memory"))
    assert "settings of all chats again" in olga.ask("/chat reset")[-1]
    assert "Nothing of that kind" in olga.ask("/chat reset")[-1]
    olga.ask("/new")
    olga.ask("[[say hi]]")
    assert last(lab)["model"] == "lab"
    assert "rhymes" not in str(last(lab)["messages"])


def test_comments_of_the_file_stay(house: House, home: Path) -> None:
    path = home / "config.yaml"
    path.write_text("# mine\n" + path.read_text())
    before = config.load_settings()
    house.person("olga").ask("/chat instructions Be kind.")
    assert path.read_text().startswith("# mine\n")
    after = config.load_settings()
    assert after.platforms["pretend"]["chats"] == {"chat-olga": {"instructions": "Be kind."}}
    assert (after.model, after.agent) == (before.model, before.agent)


@pytest.mark.parametrize(
    ("said", "told"),
    [
        ("/chat model", "no way to use it"),
        ("/chat colour red", "no way to use it"),
        ("/chat reset now", "no way to use it"),
        ("/chat model a b c", "too much"),
        ("/chat model nosuchprovider some/model", "nosuchprovider"),
        ("/chat toolsets todo,nonsense", "nonsense"),
        ("/chat instructions " + "x" * 8_001, "at most"),
        ("/chat model off", "Nothing of that kind"),
    ],
)
def test_what_cannot_be_set_is_told(house: House, said: str, told: str) -> None:
    olga: Visitor = house.person("olga")
    assert told in olga.ask(said)[-1]
    assert "chats" not in config.load_settings().platforms["pretend"]


def test_tools_that_are_offered_are_there(house: House) -> None:
    offered = house.person("olga").ask("/chat toolsets foo")[-1]
    assert "todo" in offered
    assert "hermes-" not in offered  # names of platforms' own sets, some of which do not exist


def test_members_change_nothing(house: House) -> None:
    assert "higher role" in house.person("ann").ask("/chat model small")[-1]


def test_a_terminal_has_no_settings_of_its_own(house: House) -> None:
    client = RawClient(house.home, "one")
    client.say("/chat", "1")
    wait_until(lambda: any("no settings of their own" in str(line) for line in client.lines))
    client.close()


@pytest.mark.parametrize("text", ["Answer in rhymes.", "Answer in rhymes. " + "x" * 7_900])
def test_what_was_said_about_the_instructions_outlives_the_process(house: House, lab: LabServer, text: str) -> None:
    """A4: the model hears it with the next message, once, however late that comes and however long it is."""
    olga = house.person("olga")
    olga.ask("[[say hi]]")
    olga.ask(f"/chat instructions {text}")
    house.stop()
    house.start()
    for expected in (1, 0):
        olga.ask("[[say hi]]")
        assert str(last(lab)["messages"][-1]["content"]).count("They are now: Answer in rhymes.") == expected


def test_a_new_conversation_is_not_told_what_its_prompt_says(house: House, lab: LabServer) -> None:
    olga = house.person("olga")
    olga.ask("[[say hi]]")
    olga.ask("/chat instructions Answer in rhymes.")
    olga.ask("/new")
    olga.ask("[[say hi]]")
    assert "Answer in rhymes." in str(last(lab)["messages"][0])
    assert "They are now" not in str(last(lab)["messages"])


@pytest.mark.parametrize("command", ["/chat instructions off", "/chat reset"])
def test_the_model_is_told_what_holds_and_only_a_change_of_it(home: Path, lab: LabServer, command: str) -> None:
    """A4: nothing was set, so nothing is told; then the platform's own instructions hold again, and are told."""
    with House(home, lab.base_url, pretend={**PEOPLE, "instructions": "Be brief."}) as house:
        olga = house.person("olga")
        olga.ask("[[say hi]]")
        told = olga.ask(command)[-1]
        assert "Nothing of that kind" in told
        olga.ask("[[say hi]]")
        assert "[The instructions" not in str(last(lab)["messages"][-1]["content"])
        olga.ask("/chat instructions Answer in rhymes.")
        olga.ask("[[say hi]]")
        olga.ask(command)
        olga.ask("[[say hi]]")
        assert "They are now: Be brief." in str(last(lab)["messages"][-1]["content"])
        assert "taken back" not in str(last(lab)["messages"])


def test_two_accounts_do_not_share_the_settings_of_a_chat(home: Path) -> None:
    """G2: a private chat has the same id for both bots; what is set or reset in one leaves the other alone."""
    platforms = {"app": {"accounts": {"one": {}, "two": {}}, "chats": {"7": {"model": "shared"}}}}
    home.mkdir(exist_ok=True)
    (home / "config.yaml").write_text(json.dumps({"platforms": platforms}))
    one, two = (parse_key(Address("app", account, "7").conversation("default")) for account in ("one", "two"))
    config.set_path((*chat_command._section(one), "instructions"), "Be one.")
    assert [chat_command._read(key).instructions for key in (one, two)] == ["Be one.", ""]
    config.set_path((*chat_command._section(two), "instructions"), "Be two.")
    chat_command._take_out(chat_command._section(one), FIELDS, "")
    assert [chat_command._read(key).instructions for key in (one, two)] == ["", "Be two."]
    assert {chat_command._read(key).model for key in (one, two)} == {"shared"}
    assert chat_command._find_shared(one) == ("platforms", "app", "chats", "7")


def test_chat_of_one_of_two_accounts_is_set_from_it(home: Path, lab: LabServer) -> None:
    with House(home, lab.base_url, pretend={**PEOPLE, "account": None, "accounts": {"bot": {}}}) as house:
        olga = house.person("olga")
        olga.ask("/chat instructions Answer in rhymes.")
        assert config.load_settings().platforms["pretend"]["chats"] == {
            "bot/chat-olga": {"instructions": "Answer in rhymes."}
        }
        assert "Answer in rhymes." in olga.ask("/chat")[-1]
        olga.ask("[[say hi]]")
        assert "Answer in rhymes." in str(last(lab)["messages"][0])
        olga.ask("/chat reset")
        assert "chats" not in config.load_settings().platforms["pretend"]
