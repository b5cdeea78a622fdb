"""The IRC adapter on a real network: InspIRCd with Atheme's services, people with clients, a wire that can be cut."""

import asyncio
import logging
import math
import re
import time
from collections.abc import Awaitable, Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from irc_peer import BOT, PASSWORD, IrcPeer, IrcPerson, IrcProxy, shared_peer
from platform_suite import delivering
from waiting import until, wait_until

from gateway.platforms import platform_list
from gateway.platforms.face import Accepted, NeverTaken, NotNow, Part, Refused
from gateway.platforms.irc import adapter, irc_books, irc_settings, irc_watch
from gateway.platforms.irc.adapter import IrcAdapter
from gateway.platforms.irc.connection import irc_session
from gateway.platforms.irc.connection.handshake import BAD_LOGIN, NO_ACCOUNTS, NO_SERVICES
from gateway.platforms.irc.irc_watch import NOT_LOGGED_IN
from gateway.platforms.irc.probe import probe
from hermes_base.errors import ConfigProblem, DeliveryFailure
from hermes_base.inbound import Address, Inbound

pytestmark = [pytest.mark.peers, pytest.mark.timeout(120)]
CHANNEL = "#ops"


class Desk:
    """A gateway's door: keeps what it is handed, knows some people, refuses what it is told to."""

    def __init__(self) -> None:
        self.taken: list[Inbound] = []
        self.woken: list[Address] = []
        self.known = {"ann"}
        self.refusal: Refused | None = None
        self.last: dict[Address, str] = {}

    async def take(self, inbound: Inbound) -> Accepted | Refused:
        if self.refusal is not None:
            return self.refusal
        self.taken.append(inbound)
        return Accepted(inbound.key("default"), len(self.taken) if inbound.sender in self.known else None)

    async def knows(self, platform: str, sender: str, name: str = "") -> bool:
        del name
        return platform == "irc" and sender in self.known

    async def find_last(self, account_key: str) -> dict[Address, str]:
        del account_key
        return self.last

    def wake_delivery(self, address: Address) -> None:
        self.woken.append(address)

    @property
    def texts(self) -> list[str]:
        return [inbound.text for inbound in self.taken]


class Scene:
    def __init__(self, peer: IrcPeer, proxy: IrcProxy, home: Path, **settings: Any) -> None:
        self.peer, self.proxy, self.home, self.desk = peer, proxy, home, Desk()
        self.settings = {"server": f"127.0.0.1:{proxy.port}", "tls": False, "nick": BOT, "password": PASSWORD}
        self.settings |= settings
        self.adapter = self.make(self.settings)
        self.ann = peer.person("Ann", "ann")
        self.address = Address("irc", "irc", "ann")
        self.group = Address("irc", "irc", CHANNEL, "group")

    def make(self, settings: dict[str, Any]) -> IrcAdapter:
        made = platform_list.make_adapter(platform_list.find_spec("irc"), "irc", settings, self.home)
        assert isinstance(made, IrcAdapter)
        return made

    async def connect(self) -> None:
        await self.adapter.connect(self.desk)

    async def send(self, text: str, at: Address | None = None, **more: Any) -> str:
        return await self.adapter.send(Part(at or self.address, text, markup="irc", **more))

    async def hear(self, count: int) -> list[Inbound]:
        await until(lambda: len(self.desk.taken) >= count)
        assert len(self.desk.taken) == count
        return self.desk.taken

    async def see(self, *texts: str, by: IrcPerson | None = None, to: str = "", **more: Any) -> None:
        await until(lambda: (by or self.ann).said(to=to, **more) == list(texts))

    async def in_channel(self, *people: IrcPerson) -> None:
        for person in people:
            await asyncio.to_thread(person.join, CHANNEL)


@pytest.fixture(autouse=True)
def _in_a_hurry(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """But for tests of the pace itself lines go out at once, at a server that does not mind."""
    if "flood" not in request.node.name:
        monkeypatch.setattr(irc_settings, "USUAL_LINE_SECONDS", 0.01)
        monkeypatch.setattr(adapter, "FIRST_PAUSE", 0.1)


def play(
    home: Path,
    steps: Callable[[Scene], Awaitable[None]],
    *,
    connected: bool = True,
    strict: bool = False,
    **settings: Any,
) -> None:
    """Run the steps with an adapter at the network; everybody leaves the channel afterwards."""
    peer = shared_peer()

    async def run() -> None:
        with IrcProxy(peer.port, strict=strict) as proxy:
            scene = Scene(peer, proxy, home, **settings)
            try:
                if connected:
                    await scene.connect()
                await steps(scene)
            finally:
                await scene.adapter.disconnect()
                await asyncio.to_thread(peer.everybody_leaves)

    asyncio.run(run())


# --- who speaks


def test_who_is_not_logged_in_gets_one_sentence_and_nothing_else(tmp_path: Path) -> None:
    """G1, G2: a nick identifies nobody, so there is no code for it either; in a channel they get nothing at all."""

    async def steps(scene: Scene) -> None:
        guest = scene.peer.person("Guest")
        await scene.in_channel(guest)
        guest.send(f"PRIVMSG {CHANNEL} :{BOT}: hello", f"PRIVMSG {BOT} :hello", f"PRIVMSG {BOT} :hello?")
        await scene.see(NOT_LOGGED_IN, by=guest, command="NOTICE")
        scene.ann.send(f"PRIVMSG {BOT} :and I")
        (inbound,) = await scene.hear(1)
        assert (inbound.sender, inbound.sender_name) == ("ann", "Ann")
        assert guest.said(command="NOTICE") == [NOT_LOGGED_IN]
        assert guest.said() == guest.said(to=CHANNEL) == guest.said(to=CHANNEL, command="NOTICE") == []

    play(tmp_path, steps, channels=CHANNEL)


def test_an_answer_goes_to_the_account_and_not_to_the_nick(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """G2: whoever takes the nick of somebody gets nothing of theirs; the answer waits for them."""
    monkeypatch.setattr(irc_books, "PROOF_SECONDS", 0.0)

    async def steps(scene: Scene) -> None:
        scene.ann.send(f"PRIVMSG {BOT} :a secret")
        await scene.hear(1)
        await asyncio.to_thread(scene.ann.rename, "Elsewhere")
        bob = scene.peer.person("Ann", "bob")
        with pytest.raises(NotNow, match="services account ann") as wait:
            await scene.send("for Ann's eyes only")
        assert wait.value.seconds is None
        assert not scene.adapter.reachable(scene.address)
        scene.ann.send(f"PRIVMSG {BOT} :here I am")
        await until(lambda: scene.desk.woken == [scene.address])
        assert scene.adapter.reachable(scene.address)
        await scene.send("for Ann's eyes only")
        await scene.see("for Ann's eyes only")
        assert bob.said() == []

    play(tmp_path, steps)


def test_a_nick_that_changes_hands_is_noticed_at_once(tmp_path: Path) -> None:
    """G2: the server tells, so nobody has to ask it before each line, and nothing is said to the wrong one."""

    async def steps(scene: Scene) -> None:
        scene.ann.send(f"PRIVMSG {BOT} :one")
        await scene.hear(1)
        assert scene.adapter._watch is not None
        nicks = scene.adapter._watch.nicks
        await until(lambda: nicks.find("Ann") < math.inf)
        scene.ann.send(f"PRIVMSG {BOT} :two")
        await scene.hear(2)
        await scene.send("three")
        assert not [line for line in scene.proxy.sent if line.startswith("WHOIS")]
        await asyncio.to_thread(scene.ann.rename, "Elsewhere")
        bob = scene.peer.person("Ann", "bob")
        await until(lambda: scene.adapter._books.people.find("ann") == "")
        with pytest.raises(NotNow):
            await scene.send("four")
        assert bob.said() == []

    play(tmp_path, steps)


def test_who_was_away_is_found_when_they_are_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """C9: nobody has to write first."""
    monkeypatch.setattr(irc_watch, "TICK_SECONDS", 0.2)

    async def steps(scene: Scene) -> None:
        await asyncio.to_thread(scene.ann.rename, "Elsewhere")
        with pytest.raises(NotNow):
            await scene.send("later")
        await asyncio.to_thread(scene.ann.rename, "Ann")
        await until(lambda: scene.desk.woken == [scene.address])
        await scene.send("later")
        await scene.see("later")

    play(tmp_path, steps)


def test_people_of_a_channel_are_known_by_their_accounts(tmp_path: Path) -> None:
    """Also who has another nick than their account, came later, or changed it meanwhile."""

    async def steps(scene: Scene) -> None:
        bob = scene.peer.person("Robert", "bob")
        await scene.in_channel(bob)
        await until(lambda: scene.adapter._books.people.find("bob") == "Robert")
        await asyncio.to_thread(bob.rename, "Rob")
        await until(lambda: scene.adapter._books.people.find("bob") == "Rob")
        await scene.send("hello Bob", Address("irc", "irc", "bob"))
        await scene.see("hello Bob", by=bob)
        await scene.adapter.disconnect()
        scene.adapter = scene.make(scene.settings)
        await scene.connect()
        await scene.send("hello again", Address("irc", "irc", "bob"))
        await scene.see("hello Bob", "hello again", by=bob)

    play(tmp_path, steps, channels=[CHANNEL])


def test_notices_bots_and_our_own_words_get_no_answer(tmp_path: Path) -> None:
    async def steps(scene: Scene) -> None:
        bob = scene.peer.person("Bob", "bob")
        await scene.in_channel(scene.ann, bob)
        scene.ann.send(
            f"NOTICE {BOT} :a notice", f"NOTICE {CHANNEL} :{BOT}: a notice", f"PRIVMSG @{CHANNEL} :{BOT}: ops"
        )
        await scene.send(f"{BOT}: I speak of myself", scene.group)
        scene.ann.send(f"PRIVMSG {BOT} :a message")
        await scene.hear(1)
        assert scene.desk.texts == ["a message"]

    play(tmp_path, steps, channels=CHANNEL)


def test_clients_are_answered_modestly_and_actions_are_understood(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(irc_watch, "COURTESY_SECONDS", 0.0)

    async def steps(scene: Scene) -> None:
        scene.ann.send(f"PRIVMSG {BOT} :\x01VERSION\x01", f"PRIVMSG {BOT} :\x01PING 12 34\x01")
        scene.ann.send(f"PRIVMSG {BOT} :\x01DCC SEND x 1 2 3\x01", f"PRIVMSG {BOT} :\x01TIME\x01")
        await scene.see("\x01VERSION Hermes\x01", "\x01PING 12 34\x01", command="NOTICE")
        scene.ann.send(f"PRIVMSG {BOT} :\x01ACTION waves at {BOT}\x01")
        (inbound,) = await scene.hear(1)
        assert (inbound.text, inbound.mentioned) == (f"* Ann waves at {BOT}", True)

    play(tmp_path, steps)


# --- channels


def test_a_channel_hears_who_is_spoken_to(tmp_path: Path) -> None:
    """G2: the place is the channel, the sender the account."""

    async def steps(scene: Scene) -> None:
        await scene.in_channel(scene.ann)
        for text in (f"{BOT}: /stop", f"{BOT}, hi", f"well, {BOT.upper()} knows", "hermeslike", "to nobody"):
            scene.ann.send(f"PRIVMSG {CHANNEL.upper()} :{text}")
        heard = await scene.hear(5)
        assert [one.text for one in heard[:3]] == ["/stop", "hi", f"well, {BOT.upper()} knows"]
        assert [one.mentioned for one in heard] == [True, True, True, False, False]
        assert {one.address for one in heard} == {scene.group}
        said = await scene.send("an answer", scene.group, reply_to=heard[0].message)
        await scene.see("an answer", to=CHANNEL)
        assert f"+draft/reply={heard[0].message}" in scene.ann.wait("an answer")
        scene.ann.send(f"@+draft/reply={said} PRIVMSG {CHANNEL} :and then?")
        reply = (await scene.hear(6))[-1]
        assert (reply.mentioned, reply.reply_to, reply.quote) == (True, said, "an answer")

    play(tmp_path, steps, channels=CHANNEL)


def test_after_a_kick_messages_wait_until_we_are_invited_back(tmp_path: Path) -> None:
    """C9: and the owner reads why."""

    async def steps(scene: Scene) -> None:
        scene.ann.send(f"KICK {CHANNEL} {BOT} :too loud")
        await until(lambda: "Ann has put us out (too loud)" in scene.adapter.problem)
        with pytest.raises(NotNow, match="not in the channel") as wait:
            await scene.send("are you there?", scene.group)
        assert wait.value.seconds is None
        scene.ann.send(f"INVITE {BOT} {CHANNEL}")
        await until(lambda: scene.desk.woken == [scene.group])
        await scene.send("are you there?", scene.group)
        await scene.see("are you there?", to=CHANNEL)
        assert scene.adapter.problem == ""

    async def first(scene: Scene) -> None:
        scene.ann.join(CHANNEL)  # who comes first may kick
        await scene.connect()
        await steps(scene)

    play(tmp_path, first, connected=False, channels=CHANNEL)


def test_a_ban_is_a_sentence_and_its_end_is_noticed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(irc_books, "RETRY_SECONDS", 0.0)
    monkeypatch.setattr(irc_watch, "TICK_SECONDS", 0.5)

    async def steps(scene: Scene) -> None:
        scene.ann.join(CHANNEL)
        scene.ann.send(f"MODE {CHANNEL} +b {BOT}!*@*")
        scene.ann.wait("MODE")
        await scene.connect()
        assert scene.adapter.problem == f"Not in every channel: {CHANNEL}: we are banned there. It is tried again."
        assert scene.adapter.hears  # C13: the rest of the account is connected
        scene.ann.send(f"MODE {CHANNEL} -b {BOT}!*@*")
        await until(lambda: scene.adapter.problem == "")
        await scene.send("back", scene.group)

    play(tmp_path, steps, connected=False, channels=CHANNEL)


def test_only_people_whom_we_know_take_us_along(tmp_path: Path) -> None:
    async def steps(scene: Scene) -> None:
        bob = scene.peer.person("Bob", "bob")
        await asyncio.to_thread(bob.join, "#trap")
        await asyncio.to_thread(scene.ann.join, "#den")
        bob.send(f"PRIVMSG {BOT} :hello", f"INVITE {BOT} #trap")
        await scene.hear(1)
        scene.ann.send(f"INVITE {BOT} #den")  # she was let in; nothing of hers was heard yet
        await until(lambda: scene.adapter._books.channels.is_in("#den"))
        assert not scene.adapter._books.channels.is_in("#trap")

    play(tmp_path, steps, owner="bob")  # who was removed is not brought back by the settings


def test_channels_that_it_was_invited_to_outlive_a_restart_and_a_kick_ends_them(tmp_path: Path) -> None:
    async def restart(scene: Scene) -> None:
        await scene.adapter.disconnect()
        scene.adapter = scene.make(scene.settings)
        await scene.connect()

    async def steps(scene: Scene) -> None:
        await asyncio.to_thread(scene.ann.join, "#den")
        scene.ann.send(f"INVITE {BOT} #den")
        await until(lambda: scene.adapter._books.channels.is_in("#den"))
        await restart(scene)
        await until(lambda: scene.adapter._books.channels.is_in("#den"))
        scene.ann.send(f"KICK #den {BOT} :enough")
        await until(lambda: not scene.adapter._books.channels.is_in("#den"))
        await restart(scene)
        assert scene.adapter._books.channels.invited == ()
        assert not scene.adapter._books.channels.is_in("#den")

    play(tmp_path, steps)


def test_a_channel_that_takes_no_markup_gets_plain_text(tmp_path: Path) -> None:
    """C9: by the real delivery and the server's own refusal."""

    async def steps(scene: Scene) -> None:
        scene.ann.send(f"MODE {CHANNEL} +c")
        scene.ann.wait("MODE")
        rig: Any = scene
        scene.address = scene.group
        async with delivering(rig, tmp_path) as post:
            post.put("a **bold** move")
            await until(lambda: post.waits() == 0)
        await scene.see("a bold move", to=CHANNEL)

    async def first(scene: Scene) -> None:
        scene.ann.join(CHANNEL)
        await scene.connect()
        await steps(scene)

    play(tmp_path, first, connected=False, channels=CHANNEL)


# --- what is said


def test_no_text_becomes_a_second_line(tmp_path: Path) -> None:
    """Injection: whatever stands in a text, a name or an id, the server gets messages and nothing else."""

    async def steps(scene: Scene) -> None:
        began = len(scene.proxy.sent)
        await scene.send("one\r\nQUIT :two\0three\rJOIN #trap\n\x01ACTION four\x01")
        await scene.see("one", "QUIT :twothree", "JOIN #trap", "ACTION four")
        for chat in ("x\r\nQUIT", "x y", "", ":x", "ann,bob", "*"):
            for kind in ("dm", "group"):
                with pytest.raises(DeliveryFailure):
                    await scene.send("x", Address("irc", "irc", chat, kind))
        await scene.send("five", reply_to="x;y z\r\nQUIT")
        with pytest.raises(NeverTaken):
            await scene.send("six", reply_to="x\0")
        sent = [re.sub(r"^@\S+ ", "", line).split()[0] for line in scene.proxy.sent[began:]]
        assert set(sent) <= {"PRIVMSG", "WHOIS", "MODE", "MONITOR"}

    play(tmp_path, steps)


def test_a_message_as_long_as_it_may_be_arrives_whole_in_the_longest_channel(tmp_path: Path) -> None:
    """A server cuts what is longer than 512 bytes with our name before it, so such a message is two."""
    channel = "#" + "c" * 63
    text = " ".join(f"wörd{n:02}" for n in range(49))

    async def steps(scene: Scene) -> None:
        await asyncio.to_thread(scene.ann.join, channel)
        assert len(text.encode()) > 390
        await scene.send(text, Address("irc", "irc", channel, "group"))
        await until(lambda: " ".join(scene.ann.said(to=channel, by=scene.adapter._books.nick)) == text)

    play(tmp_path, steps, channels=channel, nick="hermes-with-a-very-long-nick-1", login=BOT)


def test_a_long_answer_is_never_flood(tmp_path: Path) -> None:
    """C8: by the real delivery, at a server that ends the line of whoever sends ten lines ahead of one a second."""

    async def steps(scene: Scene) -> None:
        rig: Any = scene
        lines = [f"line {n}" for n in range(12)]
        async with delivering(rig, tmp_path) as post:
            post.put("\n\n".join(lines))
            await until(lambda: post.waits() == 0, 60)
        await scene.see(*lines)
        assert scene.proxy.welcomed == 1

    play(tmp_path, steps, strict=True)


def test_without_echoes_a_question_behind_each_message_tells_its_fate(tmp_path: Path) -> None:
    """C7: what the server has not handed on is known, and so is what it may have."""

    async def steps(scene: Scene) -> None:
        scene.proxy.edit = lambda line: line.replace(b"echo-message ", b"")
        await scene.connect()
        await scene.send("one")
        await scene.see("one")
        scene.ann.send("MODE Ann +g")
        scene.ann.wait("MODE")
        with pytest.raises(NotNow, match="accepted"):
            await scene.send("two")
        scene.ann.send("MODE Ann -g")
        await until(lambda: sum("said-" in line for line in scene.proxy.sent) == 2)
        scene.proxy.eats.append("PING")
        sending = asyncio.create_task(scene.send("three"))
        await scene.see("one", "three")
        scene.proxy.cut()
        with pytest.raises(DeliveryFailure) as failure:
            await sending
        assert failure.type is DeliveryFailure

    play(tmp_path, steps, connected=False)


def test_a_refusal_is_told_once(tmp_path: Path) -> None:
    async def steps(scene: Scene) -> None:
        scene.desk.refusal = Refused("The disk is full; nothing was kept.")
        scene.ann.send(f"PRIVMSG {BOT} :one", f"PRIVMSG {BOT} :two")
        await scene.see("The disk is full; nothing was kept.", command="NOTICE")
        scene.desk.refusal = None
        scene.ann.send(f"PRIVMSG {BOT} :three")
        await scene.hear(1)
        assert len(scene.ann.said(command="NOTICE")) == 1

    play(tmp_path, steps)


# --- the line


def test_a_dead_line_is_noticed_and_made_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """C13: nothing comes, nothing breaks; the server is asked, and taken for gone."""
    monkeypatch.setattr(irc_session, "QUIET_SECONDS", 1.0)

    async def steps(scene: Scene) -> None:
        await scene.in_channel(scene.ann)
        scene.proxy.holds = True
        await until(lambda: "nothing was heard" in scene.adapter.problem)
        assert not scene.adapter.hears
        monkeypatch.setattr(irc_session, "QUIET_SECONDS", 30.0)
        scene.proxy.cut()
        scene.proxy.holds = False
        await until(lambda: scene.adapter.problem == "", 60)
        await until(lambda: scene.adapter._books.channels.is_in(CHANNEL))
        scene.ann.send(f"PRIVMSG {CHANNEL} :{BOT}: hello")
        await scene.hear(1)

    play(tmp_path, steps, channels=CHANNEL)


def test_a_quiet_line_is_asked_and_lives(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """C13: `last_seen` moves although nobody says anything."""
    monkeypatch.setattr(irc_session, "QUIET_SECONDS", 1.0)

    async def steps(scene: Scene) -> None:
        await until(lambda: any("alive-1" in line for line in scene.proxy.sent))
        asked = time.time()
        await until(lambda: scene.adapter.last_seen > asked)

    play(tmp_path, steps)


def test_who_is_killed_comes_back(tmp_path: Path) -> None:
    async def steps(scene: Scene) -> None:
        scene.ann.send("OPER oper oper")
        scene.ann.wait(" 381 ")
        scene.ann.send(f"KILL {BOT} :begone", "MODE Ann -o")
        await until(lambda: "begone" in scene.adapter.problem)
        with pytest.raises(NotNow):
            await scene.send("anybody?")
        await until(lambda: scene.proxy.welcomed == 2 and scene.adapter.problem == "", 60)
        await scene.send("back")
        await scene.see("back")

    play(tmp_path, steps)


def test_a_nick_that_is_taken_is_got_back(tmp_path: Path) -> None:
    """From whoever is not us by waiting for them to leave it."""

    async def steps(scene: Scene) -> None:
        bob = scene.peer.person("helper", "bob")
        await scene.in_channel(bob)
        await scene.connect()
        await scene.send("under another name", scene.group)
        await until(lambda: bob.said(to=CHANNEL, by="helper_") == ["under another name"])
        await asyncio.to_thread(bob.rename, "Bob")
        await until(lambda: bob.count("NICK :helper") == 1)
        bob.send(f"PRIVMSG {CHANNEL} :helper: hello")
        assert (await scene.hear(1))[0].mentioned

    play(tmp_path, steps, connected=False, channels=CHANNEL, nick="helper", login=BOT)


def test_an_old_connection_of_our_own_is_ended_by_the_services(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(irc_watch, "TICK_SECONDS", 0.2)

    async def steps(scene: Scene) -> None:
        ghost = IrcPerson(scene.peer, BOT, BOT)
        try:
            await scene.connect()
            await until(lambda: scene.adapter._session is not None and scene.adapter._session.nick == BOT)
        finally:
            ghost.close()

    play(tmp_path, steps, connected=False)


# --- how it begins


def test_the_certificate_is_checked(tmp_path: Path) -> None:
    """TLS: an authority of one's own is named in the settings; any other certificate is no server of ours."""

    async def steps(scene: Scene) -> None:
        there = {"server": f"localhost:{scene.peer.tls_port}", "tls": True}
        for wrong in (there, there | {"server": f"127.0.0.2:{scene.peer.tls_port}"}):
            made = scene.make(scene.settings | wrong)
            with pytest.raises((ConfigProblem, NotNow)):
                await made.connect(scene.desk)
            await made.disconnect()
        trusted = there | {"ca_file": str(scene.peer.folder / "ca.pem")}
        scene.adapter = scene.make(scene.settings | trusted)
        await scene.connect()
        await scene.send("encrypted")
        await scene.see("encrypted")
        told = await probe(scene.settings | trusted, tmp_path)
        assert re.fullmatch(r"It is hermes_ on TestNet, logged in as hermes .* the line is encrypted, .*\.", told)

    play(tmp_path, steps, connected=False)


def test_a_certificate_of_ours_is_as_good_as_a_password(tmp_path: Path) -> None:
    """SASL EXTERNAL."""

    async def steps(scene: Scene) -> None:
        cert = str(scene.peer.folder / "client.pem")
        there = {
            "server": f"localhost:{scene.peer.tls_port}",
            "tls": True,
            "ca_file": str(scene.peer.folder / "ca.pem"),
        }
        owner = IrcPerson(scene.peer, "owner-of-it", BOT)
        print_ = await asyncio.to_thread(scene.peer.fingerprint, "client.crt")
        owner.send(f"PRIVMSG NickServ :CERT ADD {print_}")
        await asyncio.to_thread(owner.wait, "Added fingerprint")
        owner.close()
        settings = {key: value for key, value in scene.settings.items() if key != "password"}
        told = await probe(settings | there | {"cert_file": cert}, tmp_path)
        assert "logged in as hermes" in told

    play(tmp_path, steps, connected=False)


def test_a_wrong_password_is_a_sentence_that_does_not_tell_it(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """G6."""
    caplog.set_level(logging.DEBUG)

    async def steps(scene: Scene) -> None:
        made = scene.make(scene.settings | {"password": "not-the-word"})
        with pytest.raises(ConfigProblem, match=BAD_LOGIN[:30]):
            await made.connect(scene.desk)
        assert made.problem.startswith(BAD_LOGIN)
        assert "not-the-word" not in caplog.text + made.problem
        with pytest.raises(ConfigProblem):
            await probe(scene.settings | {"password": "not-the-word"}, tmp_path)

    play(tmp_path, steps, connected=False)


def test_nobody_connects_where_nobody_could_be_known(tmp_path: Path) -> None:
    """G1."""

    async def steps(scene: Scene) -> None:
        scene.proxy.edit = lambda line: line.replace(b"account-tag ", b"")
        with pytest.raises(ConfigProblem, match="account-tag"):
            await scene.connect()
        assert scene.adapter.problem.startswith(NO_ACCOUNTS)

    play(tmp_path, steps, connected=False)


def test_a_split_from_the_services_is_survived(tmp_path: Path) -> None:
    """Who is there stays known; who comes waits for the services, and does not come unidentified."""

    async def steps(scene: Scene) -> None:
        peer, other = scene.peer, scene.make(scene.settings | {"nick": "second", "login": BOT})
        await asyncio.to_thread(peer.services.stop)
        try:
            await asyncio.to_thread(wait_until, lambda: not peer.has_services())
            scene.ann.send(f"PRIVMSG {BOT} :still me")
            assert (await scene.hear(1))[0].sender == "ann"
            await scene.send("still you")
            await scene.see("still you")
            with pytest.raises(NotNow, match=NO_SERVICES[:20]):
                await other.connect(scene.desk)
        finally:
            await asyncio.to_thread(peer.start_services)
        await other.connect(scene.desk)
        await other.disconnect()

    play(tmp_path, steps)


def test_no_network_is_a_sentence(tmp_path: Path) -> None:
    async def steps(scene: Scene) -> None:
        made = scene.make(scene.settings | {"server": "127.0.0.1:1"})
        with pytest.raises(NotNow, match="cannot be reached"):
            await made.connect(scene.desk)
        with pytest.raises(NotNow):
            await made.send(Part(scene.address, "x"))

    play(tmp_path, steps, connected=False)


def test_who_disconnects_while_it_connects_leaves_nothing_behind(tmp_path: Path) -> None:
    """F1, I3."""

    async def steps(scene: Scene) -> None:
        connecting = asyncio.create_task(scene.connect())
        await until(lambda: scene.proxy.count_open() == 1)
        await scene.adapter.disconnect()
        with pytest.raises(NotNow):
            await connecting
        await until(lambda: scene.proxy.count_open() == 0)
        await scene.connect()
        await scene.adapter.disconnect()
        await until(lambda: scene.proxy.count_open() == 0)

    play(tmp_path, steps, connected=False)


def test_what_was_heard_is_stored_before_the_line_is_left(tmp_path: Path) -> None:
    """C1: the server brings nothing twice."""

    async def steps(scene: Scene) -> None:
        for n in range(5):
            scene.ann.send(f"PRIVMSG {BOT} :{n}")
        await until(lambda: len(scene.desk.taken) > 0)
        scene.ann.wait(f"PRIVMSG {BOT} :4")
        await until(lambda: len(scene.proxy.heard) == 5)
        await asyncio.sleep(0)
        await scene.hear(5)
        assert scene.desk.texts == ["0", "1", "2", "3", "4"]

    play(tmp_path, steps)


def test_edits_and_files_are_refused(tmp_path: Path) -> None:
    async def steps(scene: Scene) -> None:
        with pytest.raises(NeverTaken):
            await scene.adapter.edit("1", replace(Part(scene.address, "x"), text="y"))
        with pytest.raises(NeverTaken):
            await scene.send(" \x03 \n ")

    play(tmp_path, steps)
