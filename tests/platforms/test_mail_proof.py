"""G2: who a mail is from. Only what the mailbox's own server says counts, read to the letter; doubt proves nothing."""

import email.utils

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.platforms.mail.auto_mail import find_robot, read_bounce
from gateway.platforms.mail.mail_head import MailHead
from gateway.platforms.mail.mail_servers import MailAccount, MailServer
from gateway.platforms.mail.sender_proof import (
    ProvenSender,
    UnprovenSender,
    prove_sender,
    read_address,
    read_authserv_id,
    read_results,
    read_sender,
)
from gateway.platforms.mail.wire import judge_head

OURS = "mx.home.test"
SERVER = MailServer("127.0.0.1", 1, True)
ACCOUNT = MailAccount("hermes@home.test", "hermes@home.test", "secret", SERVER, SERVER, OURS)
PASS = f"{OURS}; dmarc=pass header.from=friends.test"


def prove(*results: str, sender: str = "Ann <ann@friends.test>") -> ProvenSender | UnprovenSender:
    return prove_sender([sender], results, OURS)


@pytest.mark.parametrize(
    "result",
    [
        PASS,
        f"{OURS} 1; dmarc=pass header.from=friends.test",
        f"{OURS.upper()}; DMARC=PASS Header.From=Friends.Test",
        f"{OURS}; dmarc=pass (p=REJECT sp=REJECT dis=NONE) header.from=friends.test",
        f"{OURS}; spf=fail smtp.mailfrom=else.test; dkim=fail;\r\n\tdmarc=pass header.from=friends.test",
        f"(a comment) {OURS} (another (nested) one); dmarc=pass action=none header.from=friends.test;",
        # a signature alone, as RFC 8601 and large providers write it
        f"{OURS}; dkim=pass (good signature) header.d=friends.test",
        f"{OURS}; dkim=pass header.i=@friends.test header.s=20230601 header.b=AbC/d+e=",
        f'{OURS}; dkim=pass reason="good signature" header.i=ann@friends.test',
        f"{OURS}; dmarc=none; dkim=fail header.d=friends.test; dkim=pass header.d=friends.test",
        f"{OURS}; dmarc=temperror header.from=friends.test; dkim/1=pass header.d=friends.test",
    ],
)
def test_a_sender_is_proven(result: str) -> None:
    assert prove(result) == ProvenSender("ann@friends.test", "Ann")


@pytest.mark.parametrize(
    "results",
    [
        (),
        (f"{OURS}; none",),
        (f"{OURS};",),
        (f"{OURS}; spf=pass smtp.mailfrom=friends.test",),
        (f"{OURS}; dmarc=fail header.from=friends.test",),
        (f"{OURS}; dmarc=pass",),
        (f"{OURS}; dmarc=pass header.from=else.test",),
        (f"{OURS}; dmarc=pass header.from=friends.test.else.test",),
        (f"{OURS}; dmarc=fail header.from=friends.test; dkim=pass header.d=friends.test",),
        (f"{OURS}; dmarc=fail header.from=friends.test; dmarc=pass header.from=friends.test",),
        (f"{OURS}; dkim=pass header.d=else.test",),
        (f"{OURS}; dkim=pass header.d=mail.friends.test",),
        (f"{OURS}; dkim=pass header.d=test",),
        (f"{OURS}; dkim=pass header.d=iends.test",),
        (f"{OURS}; dkim=policy header.d=friends.test",),
        (f"{OURS}; dkim=pass header.d=else.test header.d=friends.test",),
        # of somebody else, or forged further down
        ("mx.else.test; dmarc=pass header.from=friends.test",),
        (f"{OURS}.else.test; dmarc=pass header.from=friends.test",),
        (f"else {OURS}; dmarc=pass header.from=friends.test",),
        (f"{OURS}; dmarc=fail header.from=friends.test", PASS),
        (f"{OURS}; none", PASS),
        # the sender has spoilt what our own server wrote, and forged one below
        (f'{OURS}; spf=pass smtp.mailfrom="a(b@x.test; dmarc=fail header.from=friends.test', PASS),
        (f"{OURS}; dmarc=fail (a header.from=friends.test", PASS),
        (f"{OURS} (a; dmarc=fail header.from=friends.test", PASS),
        (f"{OURS}) dmarc=fail", PASS),
        (f'"{OURS}"; dmarc=fail header.from=friends.test', PASS),
        (f"(a {OURS}; dmarc=fail header.from=friends.test", PASS),
        ("dmarc=fail header.from=friends.test", PASS),
        ("", PASS),
        ("dmarc=pass header.from=friends.test",),
        # words that only look like a result
        (f"{OURS}; (dmarc=pass header.from=friends.test)",),
        (f"{OURS}; spf=pass (; dmarc=pass header.from=friends.test",),
        (f"{OURS}; spf=pass ); dmarc=pass header.from=friends.test",),
        (f'{OURS}; spf=pass reason="; dmarc=pass header.from=friends.test',),
        (f'{OURS}; spf=pass reason="x; dmarc=pass header.from=friends.test"',),
        (f"{OURS}; spf=pass smtp.mailfrom=a dmarc=pass header.from=friends.test",),
        (f"{OURS}; what is this; dmarc=pass header.from=friends.test",),
        (f"{OURS}; dmarc=pass\r\nheader.from=friends.test",),
        (f"{OURS} \\; dmarc=fail header.from=friends.test",),
    ],
)
def test_a_sender_is_not_proven(results: tuple[str, ...]) -> None:
    assert isinstance(prove(*results), UnprovenSender)


def test_a_signature_of_the_domain_above_proves_and_results_of_others_are_passed_over() -> None:
    below = "Ann <ann@mail.friends.test>"
    assert prove(f"{OURS}; dkim=pass header.d=friends.test", sender=below) == ProvenSender(
        "ann@mail.friends.test", "Ann"
    )
    assert prove("mx.else.test; dmarc=fail", PASS) == ProvenSender("ann@friends.test", "Ann")


@pytest.mark.parametrize(
    ("field", "name"),
    [
        ("mx.a.test; none", "mx.a.test"),
        (" (x (y) \\) ) MX.a.test 1 ; none", "mx.a.test"),
        ("mx.a.test(c); none", "mx.a.test"),
        ("mx.a.test", "mx.a.test"),
        ("spf=pass; none", ""),
        ("mx.a.test else; none", ""),
        ("(open", ""),
        ("", ""),
    ],
)
def test_who_wrote_a_field_stands_at_its_beginning(field: str, name: str) -> None:
    assert read_authserv_id(field) == name


def test_without_a_name_of_the_own_server_nobody_is_proven() -> None:
    assert isinstance(prove_sender(["ann@friends.test"], ["; dmarc=pass header.from=friends.test"], ""), UnprovenSender)


@pytest.mark.parametrize(
    ("field", "address", "name"),
    [
        ("ann@friends.test", "ann@friends.test", ""),
        ("<Ann@Friends.Test>", "ann@friends.test", ""),
        ("Ann Smith <ann@friends.test>", "ann@friends.test", "Ann Smith"),
        ('"Smith, Ann (home)" <ann@friends.test>', "ann@friends.test", "Smith, Ann (home)"),
        ("=?utf-8?q?Ann_Sm=C3=AFth?= <ann@friends.test>", "ann@friends.test", "Ann Smïth"),
        # a name that is an address is no name
        ('"boss@corp.test" <ann@friends.test>', "ann@friends.test", ""),
        ("=?utf-8?b?Ym9zc0Bjb3JwLnRlc3Q=?= <ann@friends.test>", "ann@friends.test", ""),
        ('"boss@corp.test> <x" <ann@friends.test>', "ann@friends.test", ""),
        ("=?utf-8?q?a=0D=0ABcc=3A_x?= <ann@friends.test>", "ann@friends.test", "a Bcc: x"),
    ],
)
def test_one_plain_sender_is_read(field: str, address: str, name: str) -> None:
    assert read_sender(field) == ProvenSender(address, name)


@pytest.mark.parametrize(
    "field",
    [
        "",
        "Ann",
        "ann@friends.test, bob@else.test",
        "Ann <ann@friends.test>, Bob <bob@else.test>",
        "boss@corp.test <ann@friends.test>",
        "<boss@corp.test> <ann@friends.test>",
        "Ann <ann@friends.test> <boss@corp.test>",
        "Friends: ann@friends.test;",
        "undisclosed-recipients:;",
        "<@relay.test:ann@friends.test>",
        "ann@friends.test (Ann)",
        "Ann (boss@corp.test) <ann@friends.test>",
        "(comment) ann@friends.test",
        '"ann boss"@friends.test',
        "ann@[127.0.0.1]",
        "ann@localhost",
        "ann@friends..test",
        "ann@friends.test@corp.test",
        "Ann <ann @friends.test>",
        "Ann <ann@friends.test",
        "Änn <ann@friends.test>",
        "ann@frïends.test",
        "=?utf-8?q?boss=40corp=2Etest?=",
        "Ann\x00 <ann@friends.test>",
        '"Ann\\" <boss@corp.test>',
        "ann@friends.test\r\nFrom: boss@corp.test",
    ],
)
def test_whatever_else_stands_there_is_nobody(field: str) -> None:
    assert read_sender(field) is None
    assert isinstance(prove(PASS, sender=field), UnprovenSender)


def test_two_senders_are_none() -> None:
    assert isinstance(prove_sender(["ann@friends.test"] * 2, [PASS], OURS), UnprovenSender)
    assert isinstance(prove_sender([], [PASS], OURS), UnprovenSender)


@given(st.text(st.sampled_from('ab@.<>()",;:\\ =?ü\t'), max_size=60))
def test_no_field_is_read_as_another_address_than_everybody_reads(field: str) -> None:
    found = read_sender(field)
    if found is not None:
        assert read_address(email.utils.parseaddr(field)[1]) == found.address


@pytest.mark.parametrize("piece", ["a", "a ", '"a" ', "=?", '"', "<", "(", ") ", "\\", "a=b ", "; ", "x=("])
def test_hostile_fields_take_no_time(piece: str) -> None:
    """Strangers write them."""
    for field in (piece * 400, piece * 30_000):
        read_sender(field)
        read_results(f"{OURS}; {field}")
        judge_head(MailHead(f"From: {field}\r\nAuthentication-Results: {OURS}; {field}\r\n".encode()), ACCOUNT)
    judge_head(MailHead(b"From: a\r\n" + b" b\r\n" * 30_000), ACCOUNT)


@given(st.text(st.sampled_from('ab.;=()"\\ \t\r\n'), max_size=80))
def test_any_text_is_read_or_refused(text: str) -> None:
    read_results(text)
    read_authserv_id(text)


# --- robots

PERSON = "From: Ann <ann@friends.test>\r\nSubject: hi\r\n"


@pytest.mark.parametrize(
    "more",
    [
        "Auto-Submitted: auto-replied\r\n",
        "Auto-Submitted: auto-generated; owner-email=x\r\n",
        "auto-submitted : auto-notified\r\n",
        "Precedence: bulk\r\n",
        "Precedence: List\r\n",
        "Precedence: junk\r\n",
        "List-Id: <friends.test>\r\n",
        "List-Unsubscribe: <mailto:x@friends.test>\r\n",
        "X-Auto-Response-Suppress: OOF, AutoReply\r\n",
        "X-Autoreply: yes\r\n",
        "Return-Path: <>\r\n",
        "Return-Path: < >\r\n",
        "Content-Type: multipart/report; report-type=delivery-status\r\n",
        "X-Loop: hermes@home.test\r\n",
    ],
)
def test_what_no_person_waits_behind_is_never_answered(more: str) -> None:
    assert find_robot(MailHead(f"{more}{PERSON}".encode()), "hermes@home.test")


@pytest.mark.parametrize(
    "address",
    [
        *("MAILER-DAEMON@friends.test", "postmaster@friends.test", "no-reply@friends.test", "noreply@friends.test"),
        *("do-not-reply@friends.test", "bounces+ann@friends.test", "talk-request@friends.test", "hermes@home.test"),
    ],
)
def test_robots_and_the_mailbox_itself_are_never_answered(address: str) -> None:
    assert find_robot(MailHead(f"From: {address}\r\n".encode()), "hermes@home.test")


def test_a_person_may_be_answered() -> None:
    more = "Return-Path: <ann@friends.test>\r\nAuto-Submitted: no\r\nPrecedence: normal\r\nX-Loop: else@x.test\r\n"
    assert find_robot(MailHead(f"{PERSON}{more}".encode()), "hermes@home.test") == ""


def test_a_head_is_judged_as_a_whole() -> None:
    """A head that programs read in different ways is nobody's."""
    proven = f"Authentication-Results: {PASS}\r\n{PERSON}"
    assert judge_head(MailHead(proven.encode()), ACCOUNT) == ProvenSender("ann@friends.test", "Ann")
    odd = [
        f"{proven}From : boss@corp.test\r\n",
        f"{proven}no field\r\n",
        f"{proven}X: a\rFrom: boss@corp.test\r\n",
        f"{proven}X: \0\r\n",
        f"{proven}X: a\nY: b\r\n",
        proven.replace("From:", " From:", 1),
        proven.replace("Ann <", "Änn <"),
    ]
    for head in odd:
        assert not isinstance(judge_head(MailHead(head.encode()), ACCOUNT), ProvenSender), head


# --- bounces

BOUNCE = b"""\
From: MAILER-DAEMON@friends.test
To: hermes@home.test
Content-Type: multipart/report; report-type=delivery-status; boundary="b"

--b
Content-Type: text/plain

It did not work.
--b
Content-Type: message/delivery-status

Reporting-MTA: dns; mx.friends.test

Final-Recipient: rfc822; ann@friends.test
Action: failed
Status: 5.1.1
Diagnostic-Code: smtp; 550 5.1.1 There is
 no such user

--b
Content-Type: text/rfc822-headers

Message-ID: <hermes.x@home.test>
Subject: Re: hi
--b--
"""


def test_a_bounce_says_whose_it_is_and_why() -> None:
    bounce = read_bounce(BOUNCE)
    assert bounce is not None
    assert (bounce.message, bounce.recipient, bounce.is_final) == ("hermes.x@home.test", "ann@friends.test", True)
    assert bounce.reason == "550 5.1.1 There is no such user"
    late = read_bounce(BOUNCE.replace(b"Action: failed", b"Action: delayed"))
    assert late is not None
    assert not late.is_final
    whole = BOUNCE.replace(b"text/rfc822-headers", b"message/rfc822")
    assert read_bounce(whole) == bounce
    assert read_bounce(b"From: ann@friends.test\n\nhello") is None
    assert read_bounce(BOUNCE.replace(b"Message-ID", b"X-ID")) is None
