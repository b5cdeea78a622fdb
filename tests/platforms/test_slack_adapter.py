"""Slack's adapter against the lab's server: what is special about Slack."""

import asyncio
import json
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from pretending import HeardCore
from slack_rig import POST, UPDATE, SlackHookRig, SlackRig, open_hook_rig
from waiting import until

from gateway.platforms.face import Accepted, MenuCommand, NeverTaken, NotNow, Part, Refused
from gateway.platforms.slack import reading_back, reception, watching, wire
from gateway.platforms.slack.probe import probe
from hermes_base.errors import ConfigProblem, DeliveryFailure
from hermes_base.inbound import Address, FileRef, Inbound
from hermes_lab.chats import faults
from hermes_lab.chats.faults import ChatFault
from hermes_lab.chats.slack.slack_lab import SlackLab
from hermes_lab.chats.slack.slack_world import ALL_SCOPES, BOT_USER

ME = f"<@{BOT_USER}>"


@asynccontextmanager
async def open_rig(home: Path, *, connected: bool = True, **settings: Any) -> AsyncIterator[SlackRig]:
    async with SlackLab() as lab:
        rig = SlackRig(lab, home, settings)
        if connected:
            await rig.connect()
        try:
            yield rig
        finally:
            await rig.disconnect()


def run(home: Path, steps: Callable[[SlackRig], Awaitable[None]], **settings: Any) -> None:
    async def all_steps() -> None:
        async with open_rig(home, **settings) as rig:
            await steps(rig)
            assert rig.lab.complaints == []

    asyncio.run(all_steps())


def run_by_hook(home: Path, steps: Callable[[SlackHookRig], Awaitable[None]]) -> None:
    async def all_steps() -> None:
        async with open_hook_rig(home) as rig:
            await rig.connect()
            try:
                await steps(rig)
            finally:
                await rig.disconnect()
            assert rig.lab.complaints == []

    asyncio.run(all_steps())


def part(rig: SlackRig, text: str, **more: Any) -> Part:
    return Part(more.pop("address", rig.address), text, **{"key": "k", "markup": "slack", **more})


def texts(rig: SlackRig) -> list[str]:
    """What was heard, each message once: in channels Slack tells of a mention twice."""
    return list({inbound.ext_id: inbound.text for inbound in rig.heard()}.values())


# --- channels and threads


def test_a_mention_in_a_channel_is_answered_in_its_thread(tmp_path: Path) -> None:
    """C1, G2: Slack tells of it twice, as a message and as a mention, under one id."""

    async def steps(rig: SlackRig) -> None:
        channel = rig.lab.add_channel("ops", [rig.person])
        ts = rig.lab.say(rig.person, f"{ME} what is up?", channel=channel)
        await until(lambda: len(rig.heard()) == 2)
        first, second = rig.heard()
        assert first.ext_id == second.ext_id
        assert (first.text, first.mentioned, first.sender) == ("what is up?", True, rig.person)
        assert first.address == Address("slack", "bot", channel, "group", ts)
        await rig.adapter.send(part(rig, "All is well.", address=first.address))
        assert rig.lab.seen(channel, ts) == ["All is well."]

    run(tmp_path, steps)


def test_in_a_thread_that_began_with_us_nobody_has_to_name_us_again(tmp_path: Path) -> None:
    """G2: elsewhere only what names us is for us."""

    async def steps(rig: SlackRig) -> None:
        channel = rig.lab.add_channel("ops", [rig.person])
        ours = rig.lab.say(rig.person, f"{ME} look at this", channel=channel)
        other = rig.lab.say(rig.person, "lunch?", channel=channel)
        rig.lab.say(rig.person, "and then?", channel=channel, thread=ours)
        rig.lab.say(rig.person, "at noon", channel=channel, thread=other)
        rig.lab.say(rig.person, f"{ME} what do you think?", channel=channel, thread=other)
        await until(lambda: len(rig.heard()) == 7)
        heard = {inbound.text: inbound for inbound in reversed(rig.heard())}  # the first copy is what is stored
        said = ("lunch?", "and then?", "at noon", "what do you think?")
        assert [heard[text].mentioned for text in said] == [False, True, False, True]
        assert heard["and then?"].address == heard["look at this"].address
        assert heard["and then?"].quote == ""
        assert (heard["what do you think?"].quote, heard["what do you think?"].reply_to) == ("lunch?", other)

    run(tmp_path, steps)


def test_a_thread_under_our_own_message_is_for_us(tmp_path: Path) -> None:
    async def steps(rig: SlackRig) -> None:
        channel = rig.lab.add_channel("ops", [rig.person])
        at = Address("slack", "bot", channel, "group")
        ts = await rig.adapter.send(part(rig, "The build is red.", address=at))
        rig.lab.say(rig.person, "why?", channel=channel, thread=ts)
        await until(lambda: len(rig.heard()) == 1)
        (inbound,) = rig.heard()
        assert (inbound.mentioned, inbound.quote, inbound.address.thread) == (True, "The build is red.", ts)

    run(tmp_path, steps)


def test_a_thread_in_a_direct_chat_is_a_conversation_of_its_own(tmp_path: Path) -> None:
    async def steps(rig: SlackRig) -> None:
        ts = await rig.adapter.send(part(rig, "Two ways: a or b."))
        rig.lab.say(rig.person, "more on b", thread=ts)
        rig.lab.say(rig.person, "and on a", thread=ts)
        await until(lambda: len(rig.heard()) == 2)
        first, second = rig.heard()
        assert first.address == second.address == replace(rig.address, thread=ts)
        assert (first.quote, second.quote) == ("Two ways: a or b.", "")

    run(tmp_path, steps)


def test_answers_stay_in_the_channel_where_the_settings_say_so(tmp_path: Path) -> None:
    async def steps(rig: SlackRig) -> None:
        channel = rig.lab.add_channel("ops", [rig.person])
        rig.lab.say(rig.person, f"{ME} hello", channel=channel)
        await until(lambda: len(rig.heard()) == 2)
        assert rig.heard()[0].address == Address("slack", "bot", channel, "group")

    run(tmp_path, steps, answer_in_threads=False)


def test_bots_are_never_answered(tmp_path: Path) -> None:
    async def steps(rig: SlackRig) -> None:
        channel = rig.lab.add_channel("ops", [rig.person])
        rig.lab.say_as_bot(f"{ME} hello", channel)
        await rig.adapter.send(part(rig, "from us", address=Address("slack", "bot", channel, "group")))
        rig.lab.say(rig.person, "from a person", channel=channel)
        await until(lambda: len(rig.heard()) == 1)
        assert texts(rig) == ["from a person"]

    run(tmp_path, steps)


# --- what people do with messages


def test_what_was_deleted_is_taken_back(tmp_path: Path) -> None:
    async def steps(rig: SlackRig) -> None:
        ts = rig.lab.say(rig.person, "never mind")
        await until(lambda: len(rig.heard()) == 1)
        rig.lab.delete(ts, rig.channel)
        await until(lambda: len(rig.heard()) == 2)
        said, gone = rig.heard()
        assert gone.stem == said.stem
        assert (gone.text, said.revision == "", gone.revision.isdecimal()) == ("", True, True)

    run(tmp_path, steps)


def test_the_preview_of_a_link_is_no_edit(tmp_path: Path) -> None:
    async def steps(rig: SlackRig) -> None:
        ts = rig.lab.say(rig.person, "see <https://a.example|this page>")
        rig.lab.unfurl(ts, rig.channel)
        rig.lab.edit(rig.person, ts, "see <https://b.example>")
        rig.lab.unfurl(ts, rig.channel)
        rig.lab.say(rig.person, "next")
        await until(lambda: len(rig.heard()) == 3)
        assert [one.text for one in rig.heard()] == [
            "see this page (https://a.example)",
            "see https://b.example",
            "next",
        ]

    run(tmp_path, steps)


def test_a_slash_command_and_typed_words_are_commands(tmp_path: Path) -> None:
    """Slack's own programs send no text that begins with a stroke."""

    async def steps(rig: SlackRig) -> None:
        await rig.adapter.offer_commands([MenuCommand("dice", "Throw.")])
        rig.lab.slash(rig.person, "stop")
        await until(lambda: len(rig.heard()) == 1)
        for said in ("!stop", "!dice 6", "!important: read this", "! stop"):
            rig.lab.say(rig.person, said)
        await until(lambda: len(rig.heard()) == 5)
        rig.lab.slash(rig.person, "how are you?")
        rig.lab.slash(rig.person, "")
        await until(lambda: len(rig.heard()) == 7)
        wanted = ["/stop", "/stop", "/dice 6", "!important: read this", "! stop", "how are you?", "/help"]
        assert [one.text for one in rig.heard()] == wanted
        assert all(one.address == rig.address for one in rig.heard())
        assert len({one.ext_id for one in rig.heard()}) == 7

    run(tmp_path, steps)


def test_a_long_question_keeps_its_buttons_and_loses_them_when_it_ends(tmp_path: Path) -> None:
    """G4: the lab judges the blocks: 3,000 characters of a section, 25 buttons of a row, 75 of a label."""

    async def steps(rig: SlackRig) -> None:
        long = "```\n" + "\n".join(f"line {n} of the change" for n in range(150)) + "\n```"
        choices = (*(f"choice {n}" for n in range(29)), "c" * 100)
        asked = part(rig, long, question="q-1", choices=choices)
        ts = await rig.adapter.send(asked)
        (message,) = rig.lab.messages(rig.channel)
        kinds = [block["type"] for block in message["blocks"]]
        assert kinds == ["section", "section", "actions", "actions"]
        assert all(block["text"]["text"].count("```") == 2 for block in message["blocks"][:2])
        rig.lab.press(rig.person, ts, "c" * 74 + "…")
        await until(lambda: len(rig.heard()) == 1)
        (pressed,) = rig.heard()
        assert (pressed.question, pressed.choice, pressed.text, pressed.reply_to) == ("q-1", "29", "30", ts)
        await rig.adapter.edit(ts, part(rig, "It ended."))
        assert "blocks" not in rig.lab.messages(rig.channel)[0]

    run(tmp_path, steps)


def test_nobody_is_called_by_what_a_model_writes(tmp_path: Path) -> None:
    """The lab complains of texts that call people, and of signs that are not escaped."""

    async def steps(rig: SlackRig) -> None:
        evil = "<!channel> & <@U0BOSS> a < b"
        await rig.adapter.send(part(rig, evil, key="k1", markup="plain"))
        await rig.adapter.send(part(rig, evil, key="k2", markup="markdown", question="q", choices=("<!here>",)))
        assert rig.lab.seen(rig.channel) == [evil, evil]
        shown = rig.lab.messages(rig.channel)[1]["blocks"][0]["text"]
        assert (shown["type"], shown["text"]) == ("plain_text", evil)

    run(tmp_path, steps)


# --- files


def test_files_go_both_ways_in_a_thread_with_their_words(tmp_path: Path) -> None:
    async def steps(rig: SlackRig) -> None:
        channel = rig.lab.add_channel("ops", [rig.person])
        root = rig.lab.send(rig.person, "plan.txt", b"the plan", text=f"{ME} look", channel=channel)
        await until(lambda: len(rig.heard()) == 2)
        inbound = rig.heard()[0]
        assert (inbound.text, inbound.files[0].name, inbound.files[0].size) == ("look", "plan.txt", 8)
        await rig.adapter.fetch(inbound.files[0], tmp_path / "got")
        assert (tmp_path / "got").read_bytes() == b"the plan"
        path = tmp_path / "answer.md"
        path.write_bytes(b"x" * 300_000)
        sent = part(rig, "as *asked*", address=inbound.address)
        assert await rig.adapter.send_file(sent, FileRef(str(path), "answer.md", size=300_000))
        (shown,) = [one for one in rig.lab.messages(channel, root) if one.get("bot_id")]
        assert (shown["text"], shown["files"][0]["size"]) == ("as *asked*", 300_000)

    run(tmp_path, steps)


def test_a_question_with_a_file_asks_ahead_of_it_and_once(tmp_path: Path) -> None:
    async def steps(rig: SlackRig) -> None:
        path = tmp_path / "change.diff"
        path.write_text("+ a line")
        asked = part(rig, "Shall I?", question="q", choices=("Yes", "No"))
        file = FileRef(str(path), "change.diff", size=8)
        rig.lab.plan([ChatFault(faults.ERROR, "files.getUploadURLExternal", status=503)])
        with pytest.raises(DeliveryFailure):
            await rig.adapter.send_file(asked, file)
        await rig.adapter.send_file(asked, file)
        assert rig.lab.seen(rig.channel) == ["Shall I?", "change.diff"]
        assert "blocks" in rig.lab.messages(rig.channel)[0]

    run(tmp_path, steps)


def test_a_file_whose_sending_broke_off_is_looked_for_before_it_is_sent_again(tmp_path: Path) -> None:
    """C7."""

    async def steps(rig: SlackRig) -> None:
        path = tmp_path / "plan.txt"
        path.write_text("the plan")
        file, share = FileRef(str(path), "plan.txt", size=8), "files.completeUploadExternal"
        for n, kind in enumerate((faults.CUT_AFTER, faults.CUT_BEFORE)):
            rig.lab.plan([ChatFault(kind, share)])
            with pytest.raises(DeliveryFailure):
                await rig.adapter.send_file(part(rig, "here", key=f"k{n}"), file)
            assert await rig.adapter.send_file(part(rig, "here", key=f"k{n}"), file)
        assert rig.lab.seen(rig.channel) == ["plan.txt", "plan.txt"]

    run(tmp_path, steps)


def test_a_place_for_files_that_takes_none_closes_no_chat(tmp_path: Path) -> None:
    """C8, C9: files go elsewhere than messages; what is wrong there is no reason to say nothing to anybody."""

    async def steps(rig: SlackRig) -> None:
        path = tmp_path / "plan.txt"
        path.write_text("the plan")
        for fault in (ChatFault(faults.ERROR, "upload", status=503), ChatFault(faults.CUT_BEFORE, "upload")):
            rig.lab.plan([fault])
            with pytest.raises(NotNow, match="does not take the file") as told:
                await rig.adapter.send_file(part(rig, "here"), FileRef(str(path), "plan.txt", size=8))
            assert not told.value.whole_account

    run(tmp_path, steps)


def test_files_that_cannot_be_had_or_sent_are_a_sentence(tmp_path: Path) -> None:
    async def steps(rig: SlackRig) -> None:
        rig.lab.send(rig.person, "plan.txt", b"the plan")
        rig.lab.send(rig.person, "far.doc", b"", mode="external", external_url="https://far.example/1")
        await until(lambda: len(rig.heard()) == 2)
        assert rig.heard()[1].files == ()
        assert rig.heard()[1].text == "[a file kept elsewhere far.doc https://far.example/1]"
        (tmp_path / "empty").write_bytes(b"")
        for path, words in (("empty", "is empty"), ("nowhere", "cannot be read")):
            with pytest.raises(NeverTaken, match=words):
                await rig.adapter.send_file(part(rig, "here"), FileRef(str(tmp_path / path), path))
        rig.adapter.spec = replace(rig.adapter.spec, max_file_bytes=4)
        (tmp_path / "large").write_bytes(b"12345")
        with pytest.raises(NeverTaken, match="larger than Slack takes"):
            await rig.adapter.send_file(part(rig, "here"), FileRef(str(tmp_path / "large"), "large"))
        rig.lab.set_scopes(*(scope for scope in ALL_SCOPES if scope != "files:read"))
        with pytest.raises(NotNow, match="files:read"):
            await rig.adapter.fetch(rig.heard()[0].files[0], tmp_path / "got")

    run(tmp_path, steps)


def test_a_download_that_fails_for_a_moment_is_no_missing_scope(tmp_path: Path) -> None:
    """It is tried again at once, and not only when an owner could have done something."""

    async def steps(rig: SlackRig) -> None:
        rig.lab.send(rig.person, "plan.txt", b"the plan")
        await until(lambda: len(rig.heard()) == 1)
        file = rig.heard()[0].files[0]
        rig.lab.plan([ChatFault(faults.ERROR, "download", status=503)])
        with pytest.raises(DeliveryFailure) as failure:
            await rig.adapter.fetch(file, tmp_path / "got")
        assert failure.type is DeliveryFailure
        await rig.adapter.fetch(file, tmp_path / "got")
        assert (tmp_path / "got").read_bytes() == b"the plan"

    run(tmp_path, steps)


def test_a_socket_says_nothing_on_the_token_of_the_bot(tmp_path: Path) -> None:
    """C13, G6: what is wrong with it stands there until a call shows that it is good again."""

    async def steps(rig: SlackRig) -> None:
        rig.lab.plan([ChatFault(faults.ERROR, POST, status=200, text="invalid_auth")])
        with pytest.raises(NotNow, match="revoked"):
            await rig.adapter.send(part(rig, "hello"))
        await rig.say("are you there?")
        await until(lambda: len(rig.heard()) == 1)
        assert "revoked" in rig.adapter.problem
        await rig.adapter.send(part(rig, "hello"))
        assert rig.adapter.problem == ""

    run(tmp_path, steps)


# --- sockets


@pytest.mark.parametrize("reason", ["warning", "refresh_requested"])
def test_another_socket_is_open_before_the_old_one_goes(tmp_path: Path, reason: str) -> None:
    """C1, C13: what falls between them is read in the history."""

    async def steps(rig: SlackRig) -> None:
        await rig.say("before")
        await until(lambda: len(rig.heard()) == 1)
        rig.lab.disconnect(reason)
        await rig.say("meanwhile")
        await until(lambda: rig.lab.sockets == 2)
        await rig.say("still there?")
        await until(lambda: texts(rig) == ["before", "meanwhile", "still there?"])
        await until(lambda: rig.lab.sockets == 1)

    run(tmp_path, steps)


def test_a_socket_that_says_nothing_any_more_is_given_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """C13: pings tell."""
    monkeypatch.setattr(watching, "PING_SECONDS", 0.05)
    monkeypatch.setattr(watching, "SILENT_SECONDS", 0.3)

    async def steps(rig: SlackRig) -> None:
        await rig.say("before")
        await until(lambda: len(rig.heard()) == 1)
        seen = rig.adapter.last_seen
        await until(lambda: rig.adapter.last_seen > seen)  # by a pong: nobody said anything
        rig.lab.freeze()
        rig.lab.say(rig.person, "is anybody there?")
        await until(lambda: texts(rig) == ["before", "is anybody there?"], 60)

    run(tmp_path, steps)


def test_socket_mode_that_is_switched_off_is_said(tmp_path: Path) -> None:
    async def steps(rig: SlackRig) -> None:
        rig.lab.socket_mode(False)
        await until(lambda: "Socket Mode is switched off" in rig.adapter.problem)
        await rig.disconnect()
        with pytest.raises(ConfigProblem, match="Socket Mode is switched off"):
            await rig.connect()

    run(tmp_path, steps)


def test_what_cannot_be_stored_holds_up_its_chat_and_nobody_else(tmp_path: Path) -> None:
    """C1, C3: it is not confirmed meanwhile, and Slack brings it again: known by then."""

    class FullCore(HeardCore):
        full = True

        async def take(self, inbound: Inbound) -> Accepted | Refused:
            if self.full and inbound.address.chat == rigs[0].channel:
                raise OSError("the disk is full")
            return await super().take(inbound)

    rigs: list[SlackRig] = []

    async def steps(rig: SlackRig) -> None:
        rigs.append(rig)
        core = FullCore()
        await rig.disconnect()
        rig.core = core
        await rig.connect()
        for text in ("one", "two"):
            await rig.say(text)
        bob = rig.lab.add_person("Bob")
        rig.lab.say(bob, "me too")
        await until(lambda: texts(rig) == ["me too"])
        await until(lambda: rig.lab.pending() == 2)
        core.full = False
        await until(lambda: texts(rig) == ["me too", "one", "two"])
        await until(lambda: rig.lab.pending() == 0)

    run(tmp_path, steps)


def test_a_message_during_the_end_is_not_confirmed(tmp_path: Path) -> None:
    """C1: the next process reads it in the history."""

    class EndingCore(HeardCore):
        ending = True

        async def take(self, inbound: Inbound) -> Accepted | Refused:
            if self.ending and inbound.text == "late":
                self.answers.append(Refused("It ends.", closing=True))
                return self.answers[-1]
            return await super().take(inbound)

    async def steps(rig: SlackRig) -> None:
        core = rig.core = EndingCore()
        await rig.disconnect()
        await rig.connect()
        await rig.say("early")
        await until(lambda: texts(rig) == ["early"])
        await rig.say("late")
        await until(lambda: core.answers[-1] == Refused("It ends.", closing=True))
        assert rig.lab.pending() == 1
        core.ending = False
        assert await rig.restart()
        await until(lambda: texts(rig) == ["early", "late"])
        assert rig.lab.seen(rig.channel) == []

    run(tmp_path, steps)


def test_a_refusal_is_told_once(tmp_path: Path) -> None:
    class FullCore(HeardCore):
        async def take(self, inbound: Inbound) -> Accepted | Refused:
            await super().take(inbound)
            return Refused("The disk is full.")

    async def steps(rig: SlackRig) -> None:
        rig.core = FullCore()
        await rig.disconnect()
        await rig.connect()
        for text in ("one", "two"):
            await rig.say(text)
        await until(lambda: len(rig.heard()) == 2)
        await until(lambda: rig.lab.pending() == 0)
        assert rig.lab.seen(rig.channel) == ["The disk is full."]

    run(tmp_path, steps)


# --- after an absence


def test_threads_are_read_on_too(tmp_path: Path) -> None:
    """C1: known ones, and those that began meanwhile; each in the order in which it was said."""

    async def steps(rig: SlackRig) -> None:
        channel = rig.lab.add_channel("ops", [rig.person])
        root = rig.lab.say(rig.person, f"{ME} begin", channel=channel)
        rig.lab.say(rig.person, "first", channel=channel, thread=root)
        await until(lambda: texts(rig) == ["begin", "first"])
        await rig.disconnect()
        rig.lab.say(rig.person, "second", channel=channel, thread=root)
        new = rig.lab.say(rig.person, f"{ME} another thing", channel=channel)
        rig.lab.say(rig.person, "and more of it", channel=channel, thread=new)
        rig.lab.say(rig.person, "third", channel=channel, thread=root)
        await rig.connect()
        wanted = ["begin", "first", "second", "another thing", "and more of it", "third"]
        await until(lambda: texts(rig) == wanted)
        assert all(inbound.mentioned for inbound in rig.heard())

    run(tmp_path, steps)


def test_a_history_that_may_not_be_read_is_said_and_stops_nothing(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async def steps(rig: SlackRig) -> None:
        await rig.say("before")
        await until(lambda: len(rig.heard()) == 1)
        await rig.disconnect()
        await rig.say("missed")
        rig.lab.set_scopes(*(scope for scope in ALL_SCOPES if scope != "im:history"))
        await rig.connect()
        assert "im:history" in rig.adapter.problem
        await rig.say("after")
        await until(lambda: texts(rig) == ["before", "after"])
        assert await rig.adapter.send(part(rig, "I hear you."))

    run(tmp_path, steps)
    assert "lacks the scope im:history" in caplog.text


def test_a_token_that_is_refused_for_a_moment_costs_nothing_that_was_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """C1."""
    monkeypatch.setattr(reception, "REFUSED_TOKEN_SECONDS", 0.1)

    async def steps(rig: SlackRig) -> None:
        await rig.say("before")
        await until(lambda: len(rig.heard()) == 1)
        await rig.disconnect()
        await rig.say("missed")
        rig.lab.plan([ChatFault(faults.ERROR, "conversations.history", status=200, text="invalid_auth")])
        await rig.connect()
        await until(lambda: texts(rig) == ["before", "missed"])

    run(tmp_path, steps)


def test_a_short_gap_is_read_only_where_people_talk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """C8: Slack renews its sockets, and nobody waits for what was never missed."""

    async def steps(rig: SlackRig) -> None:
        await rig.say("before")
        await until(lambda: len(rig.heard()) == 1)
        monkeypatch.setattr(reading_back, "BUSY_SECONDS", -3600.0)  # it was long ago
        rig.lab.disconnect("refresh_requested")
        await until(lambda: rig.lab.sockets == 2)
        await until(lambda: rig.lab.sockets == 1)
        await rig.say("after")
        await until(lambda: texts(rig) == ["before", "after"])
        assert [call for call in rig.lab.calls() if call["method"] == "conversations.history"] == []

    run(tmp_path, steps)


def test_what_was_said_while_requests_did_not_reach_us_is_read_before_what_is_new(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """C1, C3: Slack has given up by then."""

    async def steps(rig: SlackHookRig) -> None:
        await rig.say("before")
        await until(lambda: texts(rig) == ["before"])
        monkeypatch.setattr(watching, "SHORT_GAP", 0.0)
        await rig.say("missed")
        await until(lambda: texts(rig) == ["before", "missed"])
        rig.core.taken[:] = [one for one in rig.core.taken if one.text != "missed"]  # as if it had never come
        await rig.say("after")
        await until(lambda: texts(rig) == ["before", "missed", "after"])

    run_by_hook(tmp_path, steps)


def test_a_root_that_cannot_be_looked_up_does_not_block_its_channel(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reception, "RETRY_SECONDS", 0.05)

    async def steps(rig: SlackRig) -> None:
        channel = rig.lab.add_channel("ops", [rig.person])
        root = rig.lab.say(rig.person, "lunch?", channel=channel)
        rig.lab.plan([ChatFault(faults.ERROR, "conversations.replies", status=200, text="internal_error", times=0)])
        rig.lab.say(rig.person, "at noon", channel=channel, thread=root)
        rig.lab.say(rig.person, f"{ME} what is up?", channel=channel)
        await until(lambda: "what is up?" in texts(rig))

    run(tmp_path, steps)


def test_a_crowd_of_names_is_not_looked_up_one_by_one(tmp_path: Path) -> None:
    """F5: whoever writes it, others in the channel do not wait for it."""

    async def steps(rig: SlackRig) -> None:
        channel = rig.lab.add_channel("ops", [rig.person])
        rig.lab.say(rig.person, " ".join(f"<@U0FAKE{n:05}>" for n in range(400)), channel=channel)
        rig.lab.say(rig.person, f"{ME} what is up?", channel=channel)
        await until(lambda: "what is up?" in texts(rig))
        asked = [call for call in rig.lab.calls() if call["method"] == "users.info"]
        assert len(asked) <= 2 + wire.MOST_NAMED

    run(tmp_path, steps)


def test_sockets_that_end_at_once_are_opened_ever_less_often(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """C8: no storm. Each pause is at least half of one that doubles, so three seconds hold few of them."""
    monkeypatch.setattr(watching, "FIRST_PAUSE", 0.2)

    async def steps(rig: SlackRig) -> None:
        end = time.monotonic() + 3.0
        while time.monotonic() < end:
            rig.lab.cut()
            await asyncio.sleep(0.01)
        assert sum(call["method"] == "apps.connections.open" for call in rig.lab.calls()) <= 8

    run(tmp_path, steps)


def test_patience_that_slack_asks_for_is_had_with_histories(tmp_path: Path) -> None:
    """C8."""

    async def steps(rig: SlackRig) -> None:
        await rig.say("before")
        await until(lambda: len(rig.heard()) == 1)
        await rig.disconnect()
        await rig.say("missed")
        rig.lab.plan([ChatFault(faults.TOO_MANY, "conversations.history", seconds=1.0)])
        await rig.connect()
        await until(lambda: texts(rig) == ["before", "missed"])

    run(tmp_path, steps)


# --- what was sent


def test_what_a_process_before_has_sent_is_not_sent_again(tmp_path: Path) -> None:
    """C7: it is found by its key, in the chat or in its thread, and can be edited."""

    async def steps(rig: SlackRig) -> None:
        root = rig.lab.say(rig.person, "hello")
        await until(lambda: len(rig.heard()) == 1)
        for address in (rig.address, replace(rig.address, thread=root)):
            key = f"draft:{address.thread}"
            before = await rig.adapter.send(part(rig, "a draft …", key=key, address=address))
            await rig.disconnect()
            rig.adapter = rig.make_adapter(rig.settings)
            await rig.connect()
            again = await rig.adapter.send(part(rig, "the answer", key=key, address=address))
            assert again == before
            await rig.adapter.edit(again, part(rig, "the answer", address=address))
        assert rig.lab.seen(rig.channel) == ["the answer", "the answer"]

    run(tmp_path, steps)


@pytest.mark.parametrize("kind", [faults.CUT_AFTER, faults.CUT_BEFORE, faults.ERROR])
def test_a_message_in_doubt_is_looked_for(tmp_path: Path, kind: str) -> None:
    """C7: there once, whether it arrived or not."""

    async def steps(rig: SlackRig) -> None:
        await rig.adapter.send(part(rig, "before", key="k0"))
        rig.lab.plan([ChatFault(kind, POST, status=500)])
        with pytest.raises(DeliveryFailure) as failure:
            await rig.adapter.send(part(rig, "hello"))
        assert failure.type is DeliveryFailure
        assert await rig.adapter.send(part(rig, "hello"))
        assert rig.lab.seen(rig.channel) == ["before", "hello"]

    run(tmp_path, steps)


def test_a_call_that_was_given_up_is_in_doubt(tmp_path: Path) -> None:
    """C7: whoever sends does not wait for ever."""

    async def steps(rig: SlackRig) -> None:
        await rig.adapter.send(part(rig, "before", key="k0"))
        rig.lab.plan([ChatFault(faults.SILENT_AFTER, POST)])
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.5):
                await rig.adapter.send(part(rig, "hello"))
        assert await rig.adapter.send(part(rig, "hello"))
        assert rig.lab.seen(rig.channel) == ["before", "hello"]

    run(tmp_path, steps)


def test_a_doubt_outlives_what_is_sent_beside_it(tmp_path: Path) -> None:
    """C7: a message is on its way while another one is sent and arrives; then its connection breaks."""

    async def steps(rig: SlackRig) -> None:
        await rig.adapter.send(part(rig, "before", key="k0"))
        rig.lab.plan([ChatFault(faults.SILENT_AFTER, POST)])
        first = asyncio.create_task(rig.adapter.send(part(rig, "first", key="k1")))
        await until(lambda: len(rig.lab.calls(POST)) == 2)
        await rig.adapter.send(part(rig, "second", key="k2"))
        rig.lab.cut()
        with pytest.raises(DeliveryFailure):
            await first
        assert await rig.adapter.send(part(rig, "first", key="k1"))
        assert rig.lab.seen(rig.channel) == ["before", "first", "second"]

    run(tmp_path, steps)


def test_a_penalty_of_edits_holds_for_all_edits(tmp_path: Path) -> None:
    """C8: it is one of the method, so other chats do not try it, either."""

    async def steps(rig: SlackRig) -> None:
        bob = Address("slack", "bot", rig.lab.dm(rig.lab.add_person("Bob")))
        ids = [await rig.adapter.send(part(rig, "draft", key=str(at), address=at)) for at in (rig.address, bob)]
        rig.lab.plan([ChatFault(faults.TOO_MANY, UPDATE, chat=rig.channel, seconds=30.0)])
        for at, ts in zip((rig.address, bob), ids, strict=True):
            with pytest.raises(NotNow) as failure:
                await rig.adapter.edit(ts, part(rig, "more", address=at))
            assert 0 < (failure.value.seconds or 0) <= 30
        assert len(rig.lab.calls(UPDATE)) == 1

    run(tmp_path, steps)


# --- troubles


@pytest.mark.parametrize(
    ("error", "kind", "words"),
    [
        ("restricted_action", NotNow, "may not write in this channel"),
        ("messages_tab_disabled", NotNow, "Messages tab"),
        ("user_disabled", NotNow, "account is closed"),
        ("thread_not_found", NeverTaken, "thread is not there"),
        ("msg_too_long", NeverTaken, "longer than Slack takes"),
        ("something_new", NeverTaken, "something_new"),
    ],
)
def test_each_refusal_is_a_sentence(tmp_path: Path, error: str, kind: type[DeliveryFailure], words: str) -> None:
    async def steps(rig: SlackRig) -> None:
        rig.lab.plan([ChatFault(faults.ERROR, POST, status=200, text=error)])
        with pytest.raises(kind, match=words) as failure:
            await rig.adapter.send(part(rig, "hello"))
        assert failure.type is kind

    run(tmp_path, steps)


def test_what_is_for_a_channel_waits_until_the_bot_is_invited_again(tmp_path: Path) -> None:
    """C9: also in one that is archived."""

    async def steps(rig: SlackRig) -> None:
        channel = rig.lab.add_channel("ops", [rig.person])
        at = Address("slack", "bot", channel, "group")
        rig.lab.remove_bot(channel)
        with pytest.raises(NotNow, match="not in the channel") as failure:
            await rig.adapter.send(part(rig, "hello", address=at))
        assert failure.value.seconds is None
        assert not rig.adapter.reachable(at)
        rig.lab.invite_bot(channel)
        await until(lambda: rig.core.woken == [at])
        assert rig.adapter.reachable(at)
        rig.lab.archive(channel)
        with pytest.raises(NotNow, match="archived"):
            await rig.adapter.send(part(rig, "hello", address=at))
        rig.lab.archive(channel, False)
        await until(lambda: rig.core.woken == [at, at])
        await rig.adapter.send(part(rig, "hello", address=at))
        assert rig.lab.seen(channel) == ["hello"]

    run(tmp_path, steps)


def test_a_revoked_token_is_said_and_tried_seldom(tmp_path: Path) -> None:
    async def steps(rig: SlackRig) -> None:
        rig.lab.revoke()
        with pytest.raises(NotNow) as failure:
            await rig.adapter.send(part(rig, "hello"))
        assert (failure.value.seconds, failure.value.whole_account) == (300.0, True)
        assert "it was revoked" in rig.adapter.problem
        rig.lab.cut()
        await until(lambda: "Socket Mode" in rig.adapter.problem)
        await rig.disconnect()
        with pytest.raises(ConfigProblem, match="it was revoked"):
            await rig.connect()

    run(tmp_path, steps)


def test_an_uninstalled_app_is_said(tmp_path: Path) -> None:
    async def steps(rig: SlackRig) -> None:
        rig.lab.push({"type": "tokens_revoked", "tokens": {"bot": [BOT_USER]}})
        await until(lambda: "it was revoked" in rig.adapter.problem)

    run(tmp_path, steps)


def test_a_network_that_is_gone_is_said_and_found_again(tmp_path: Path) -> None:
    """C13: nothing is lost meanwhile."""

    async def steps(rig: SlackRig) -> None:
        await rig.say("before")
        await until(lambda: len(rig.heard()) == 1)
        port = int(rig.lab.address.rpartition(":")[2])
        await asyncio.to_thread(rig.lab.stop)
        await until(lambda: "cannot be reached" in rig.adapter.problem)
        with pytest.raises(NotNow) as failure:
            await rig.adapter.send(part(rig, "hello"))
        assert failure.value.whole_account
        rig.lab._port = port
        rig.lab.start()
        await until(lambda: rig.adapter.problem == "", 60)
        await rig.say("after")
        await until(lambda: texts(rig) == ["before", "after"])

    run(tmp_path, steps)


def test_a_scope_that_is_missing_is_named(tmp_path: Path) -> None:
    async def steps(rig: SlackRig) -> None:
        rig.lab.set_scopes("im:history", "chat:write")
        (tmp_path / "plan.txt").write_text("the plan")
        with pytest.raises(NotNow, match="lacks the scope files:write"):
            await rig.adapter.send_file(part(rig, "here"), FileRef(str(tmp_path / "plan.txt"), "plan.txt"))
        await rig.disconnect()
        await rig.connect()
        assert rig.adapter.problem == ""
        told = await probe(rig.settings, tmp_path)
        assert "It is @lab in Lab" in told
        assert "sends files only with the scope files:write" in told
        await rig.disconnect()
        rig.lab.set_scopes("im:history")
        await rig.connect()
        assert "lacks the scope chat:write" in rig.adapter.problem
        with pytest.raises(ConfigProblem, match="chat:write"):
            await probe(rig.settings, tmp_path)

    run(tmp_path, steps)


def test_a_reaction_is_put_only_where_it_may_be(tmp_path: Path) -> None:
    async def steps(rig: SlackRig) -> None:
        ts = rig.lab.say(rig.person, "hello")
        for _ in range(2):
            await rig.adapter.acknowledge(rig.address, ts)
        assert rig.lab.messages(rig.channel)[0]["reactions"] == ["eyes"]
        asked = len(rig.lab.calls("reactions.add"))
        rig.lab.set_scopes("im:history", "chat:write")
        for _ in range(2):
            await rig.adapter.acknowledge(rig.address, ts)
        assert len(rig.lab.calls("reactions.add")) == asked + 1

    run(tmp_path, steps)


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"token": ""}, "has no bot token"),
        ({"token": "xapp-1-A-2-b"}, "no token of a Slack bot"),
        ({"token": "xoxb-1-2-wrong"}, "does not take the bot's token"),
        ({"app_token": ""}, "needs the app's token"),
        ({"app_token": "xoxb-1-2-c"}, "no token for Socket Mode"),
        ({"app_token": "xapp-1-A-2-wrong"}, "does not take the app's token"),
        ({"mode": "carrier pigeon"}, "platforms.slack.mode"),
        ({"mode": "http"}, "signing secret"),
    ],
)
def test_settings_that_will_not_do_are_said(tmp_path: Path, settings: dict[str, str], words: str) -> None:
    """G6: without the secret itself."""

    async def all_steps() -> None:
        async with open_rig(tmp_path, connected=False, **settings) as rig:
            for attempt in (rig.connect(), probe(rig.settings, tmp_path)):
                with pytest.raises(ConfigProblem, match=words) as problem:
                    await attempt
                assert not any(value in str(problem.value) for value in settings.values() if value.startswith("x"))

    asyncio.run(all_steps())


def test_no_network_at_the_set_up_is_a_sentence(tmp_path: Path) -> None:
    async def all_steps() -> None:
        async with open_rig(tmp_path, connected=False, base_url="http://127.0.0.1:9/api/") as rig:
            with pytest.raises(ConfigProblem, match="cannot be reached"):
                await probe(rig.settings, tmp_path)
            with pytest.raises(NotNow, match="cannot be reached"):
                await rig.connect()

    asyncio.run(all_steps())


# --- by signed requests


def test_by_requests_messages_buttons_and_commands_come(tmp_path: Path) -> None:
    """C1: 200 when it is stored, and then not again."""

    async def steps(rig: SlackHookRig) -> None:
        await rig.say("hello")
        await until(lambda: len(rig.heard()) == 1)
        ts = await rig.adapter.send(part(rig, "Shall I?", question="q", choices=("Yes", "No")))
        rig.lab.press(rig.person, ts, "Yes")
        await until(lambda: len(rig.heard()) == 2)
        rig.lab.slash(rig.person, "stop")
        await until(lambda: len(rig.heard()) == 3)
        assert [one.text for one in rig.heard()] == ["hello", "Yes", "/stop"]
        await until(lambda: rig.lab.pending() == 0)
        assert [one["status"] for one in rig.lab.attempts()] == [200, 200, 200]
        assert rig.lab.calls("apps.connections.open") == []

    run_by_hook(tmp_path, steps)


def test_by_requests_what_could_not_be_stored_is_no_200(tmp_path: Path) -> None:
    """C1: it is kept and tried again here, and known when Slack brings it again."""

    async def steps(rig: SlackHookRig) -> None:
        rig.core.failures = 3
        await rig.say("hello")
        await until(lambda: len(rig.lab.attempts()) >= 1)
        assert rig.lab.attempts()[0]["status"] == 503
        await until(lambda: rig.lab.pending() == 0)
        assert rig.lab.attempts()[-1]["status"] == 200
        assert texts(rig) == ["hello"]

    run_by_hook(tmp_path, steps)


def test_what_was_said_during_an_absence_is_read_by_requests_too(tmp_path: Path) -> None:
    """C1."""

    async def steps(rig: SlackHookRig) -> None:
        await rig.say("before")
        await until(lambda: len(rig.heard()) == 1)
        await rig.disconnect()
        await rig.say("missed")
        await rig.connect()
        await until(lambda: texts(rig) == ["before", "missed"])

    run_by_hook(tmp_path, steps)


async def ask(rig: SlackHookRig, body: str, **more: Any) -> dict[str, Any]:
    """A request by hand; the loop that has to answer it goes on meanwhile."""
    return await asyncio.to_thread(rig.lab.request, body, **more)


def test_requests_of_others_are_not_read(tmp_path: Path) -> None:
    """G1: a wrong secret, an old request and an altered one are a 401 and cost nothing."""

    async def steps(rig: SlackHookRig) -> None:
        event = {"type": "message", "channel": rig.channel, "user": rig.person, "text": "hi", "ts": "1700000000.000100"}
        body = json.dumps({"type": "event_callback", "event": {**event, "channel_type": "im"}})
        assert rig.adapter.hook_header == "x-slack-signature"
        assert (await ask(rig, body, secret="another"))["status"] == 401
        assert (await ask(rig, body, age=301))["status"] == 401
        assert rig.heard() == []
        assert (await ask(rig, "no json"))["status"] == 400
        assert (await ask(rig, body))["status"] == 200
        assert texts(rig) == ["hi"]
        asked = await ask(rig, json.dumps({"type": "url_verification", "challenge": "3eZbrw1a", "token": "x"}))
        assert asked == {"status": 200, "body": "3eZbrw1a"}
        form = "application/x-www-form-urlencoded"
        assert (await ask(rig, "ssl_check=1&token=x", kind=form))["status"] == 200
        assert len(rig.heard()) == 1

    run_by_hook(tmp_path, steps)


def test_by_requests_life_is_looked_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """C13: also when nobody says anything."""
    monkeypatch.setattr(watching, "LOOK_SECONDS", 0.05)

    async def steps(rig: SlackHookRig) -> None:
        seen = rig.adapter.last_seen
        await until(lambda: rig.adapter.last_seen > seen)
        rig.lab.revoke()
        await until(lambda: "it was revoked" in rig.adapter.problem)

    run_by_hook(tmp_path, steps)
