"""What somebody wrote themselves in a mail, and what stands below it from others. Pure."""

import re
from dataclasses import dataclass

#: The line above a quote, by language: it names a day and a person, and ends with a colon.
_ATTRIBUTIONS = (
    r"On\b.+\bwrote\s*:",
    r"Am\b.+\bschrieb\b.*:",
    r".+\bschrieb am\b.+:",
    r"Le\b.+\ba écrit\s*:",
    r"El\b.+\bescribió\s*:",
    r"Il\b.+\bha scritto\s*:",
    r"Em\b.+\bescreveu\s*:",
    r"A\b.+\bescreveu\s*:",
    r"Op\b.+\bschreef\b.*:",
    r"(?:Den|På|Kl)\b.+\bskrev\b.*:",
    r"W dniu\b.+\b(?:pisze|napisał(?:\(a\)|a)?)\s*:",
    r"Dne\b.+\bnapsal(?:\(a\)|a)?\s*:",
    r".+\bkirjoitti\s*:",
    r".+\bşunu yazdı\s*:",
    r".+\b(?:написал(?:\(а\)|а)?|пишет)\s*:",
    r".+\bнаписав(?:\(ла\))?\s*:",
    r".+(?:写道|寫道)\s*[:：]",
    r".+のメール\s*[:：]",
    r".+작성\s*[:：]",
)
_ATTRIBUTION = re.compile("|".join(f"(?:{one})" for one in _ATTRIBUTIONS), re.IGNORECASE)
_ATTRIBUTION_LINES = 3  # clients turn the line where it is long
#: Names of the fields that Outlook and others put above what they quote.
_FROM = r"From|Von|De|Da|Van|Från|Fra|Od|Lähettäjä|От|差出人|发件人|寄件者|보낸 사람"
_OTHERS = (
    r"Sent|Date|To|Cc|Subject|Gesendet|Datum|An|Betreff|Envoyé|À|Objet|Enviado|Enviada em|Fecha|Para|Asunto|Assunto|"
    r"Inviato|Data|A|Oggetto|Verzonden|Aan|Onderwerp|Skickat|Till|Ämne|Sendt|Til|Emne|Wysłano|Do|Temat|Odesláno|Komu|"
    r"Předmět|Lähetetty|Vastaanottaja|Aihe|Отправлено|Дата|Кому|Тема|送信日時|宛先|件名|发送时间|收件人|主题|보낸 날짜|"
    r"받는 사람|제목"
)
_FROM_LINE = re.compile(rf"\*?(?:{_FROM})\s*[:：]\*?\s*\S")
_OTHER_LINE = re.compile(rf"\*?(?:{_OTHERS})\s*[:：]\*?", re.IGNORECASE)
_BLOCK_LINES = 8
_LONGEST_MARK = 400  # a longer line is no mark of a quote
_DASHED = re.compile(
    r"-{3,}\s*([^-].*[^-])\s*-{3,}|(Begin forwarded message|Anfang der weitergeleiteten Nachricht)\s*:"
)
_RULE = re.compile(r"[_—-]{5,}")
_FORWARD = re.compile(
    r"forward|weitergeleitet|transf[ée]r|reenviad|encaminhad|inoltrat|doorgestuurd|vidarebefordra", re.I
)
_ORIGINAL = re.compile(
    r"origin|ursprünglich|oorspronkelijk|ursprung|oprindelig|opprinnelig|исходное|原始", re.IGNORECASE
)
_SIGNATURE = "-- "
#: The last line that telephones put there.
_DEVICE = re.compile(
    r"(?:Sent from my|Sent from|Get Outlook for|Von meinem .+ gesendet|Gesendet von|Envoyé de mon|Envoyé depuis|"
    r"Enviado desde|Enviado do|Inviato da|Verstuurd vanaf|Skickat från)\b.{0,60}",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True)
class SplitText:
    own: str
    quoted: str  # what somebody else wrote, or the same person before; with the line above it
    forwarded: bool = False  # it is passed on, and meant to be read
    mixed: bool = False  # words of others stand between the own ones


def split_quoted(text: str) -> SplitText:
    """The text and what it quotes at its end. Where answers stand between quoted lines, all of it stays together."""
    lines = text.split("\n")
    at, forwarded = _find_quote(lines)
    own = drop_signature("\n".join(lines[:at]))
    return SplitText(own, "\n".join(lines[at:]).strip("\n") if at is not None else "", forwarded, _is_mixed(own))


def _is_mixed(text: str) -> bool:
    """Whether lines are marked as somebody else's: by a sign before them, or by the line that names who wrote them."""
    lines = text.split("\n")
    above = ["", *lines]
    return any(
        line.lstrip().startswith(">")
        or (line.startswith("|") and before.rstrip().endswith((":", "：")))
        or _find_attribution_end(lines, number) is not None
        for number, (before, line) in enumerate(zip(above, lines, strict=False))
    )


def drop_signature(text: str) -> str:
    lines = text.rstrip().split("\n")
    marks = [number for number, line in enumerate(lines) if line == _SIGNATURE]
    if marks and marks[0]:
        lines = lines[: marks[0]]
    while lines and not lines[-1].strip():
        lines.pop()
    if len(lines) > 1 and _DEVICE.fullmatch(lines[-1].strip()):
        lines.pop()
    return "\n".join(lines).strip("\n").rstrip()


def _find_quote(lines: list[str]) -> tuple[int | None, bool]:
    """Where the quote begins, and whether it is a forwarded mail."""
    for number, line in enumerate(lines):
        bare = line.strip() if len(line) <= _LONGEST_MARK else ""
        dashed = _DASHED.fullmatch(bare)
        if dashed and (_FORWARD.search(bare) or _ORIGINAL.search(bare) or _is_block(lines, number + 1)):
            return number, bool(_FORWARD.search(bare))
        if _FROM_LINE.match(bare) and _is_block(lines, number):
            above = number - 1 if number and _RULE.fullmatch(lines[number - 1].strip()) else number
            return above, False
        ends = _find_attribution_end(lines, number)
        if ends is not None:
            return (None if _has_answers(lines[ends:]) else number), False
    return _find_trailing(lines), False


def _is_block(lines: list[str], at: int) -> bool:
    """Whether a head of a mail stands there: who, and at least two of when, to whom and about what."""
    near = [line.strip() for line in lines[at : at + _BLOCK_LINES] if line.strip()]
    return bool(near) and bool(_FROM_LINE.match(near[0])) and sum(bool(_OTHER_LINE.match(one)) for one in near[1:]) >= 2


def _find_attribution_end(lines: list[str], at: int) -> int | None:
    """The line after the attribution that begins here; None: none does. It names a day in its first line, so that one's
    own words above it are no part of it, and something follows."""
    if not any(char.isdigit() for char in lines[at]):
        return None
    joined = ""
    for number in range(at, min(at + _ATTRIBUTION_LINES, len(lines))):
        bare = lines[number].strip()
        if not bare or bare.startswith(">"):
            return None
        joined = f"{joined} {bare}".strip()
        if len(joined) > _LONGEST_MARK:
            return None
        if joined.endswith((":", "：")) and _ATTRIBUTION.fullmatch(joined):
            return number + 1 if any(line.strip() for line in lines[number + 1 :]) else None
    return None


def _has_answers(lines: list[str]) -> bool:
    """Whether somebody wrote between or below quoted lines; a signature there is no answer."""
    marked = [number for number, line in enumerate(lines) if line.startswith(">")]
    if not marked:
        return False
    rest = drop_signature("x\n" + "\n".join(line for line in lines[marked[0] :] if not line.startswith(">")))
    return bool(rest.removeprefix("x").strip())


def _find_trailing(lines: list[str]) -> int | None:
    """Quoted lines at the very end, with nothing but blanks between and behind."""
    at = len(lines)
    while at and (not lines[at - 1].strip() or lines[at - 1].startswith(">")):
        at -= 1
    quoted = [number for number in range(at, len(lines)) if lines[number].startswith(">")]
    return quoted[0] if quoted and at else None
