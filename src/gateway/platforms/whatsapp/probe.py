"""Asks WhatsApp whose number it is, for whoever sets it up."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from gateway.platforms.id_forms import refuse_own
from gateway.platforms.whatsapp import SPEC
from gateway.platforms.whatsapp.link import open_link
from gateway.platforms.whatsapp.number_settings import read_number
from gateway.platforms.whatsapp.refusals import BAD_TOKEN, BAD_TOKEN_FIX, TOKEN_CODES, GraphTrouble, find_meaning
from hermes_base.errors import ConfigProblem


async def probe(settings: Mapping[str, Any], home: Path) -> str:
    """Which number it is, in a sentence; ConfigProblem when that cannot be found out."""
    del home
    link = await open_link(read_number(settings))
    try:
        about = await link.describe_number()
        refuse_own(SPEC.person_ids, settings, about.get("display_phone_number"))
        return describe_number(about, str(settings.get("account") or SPEC.name))
    except GraphTrouble as trouble:
        raise as_problem(trouble) from None
    finally:
        await link.close()


def as_problem(trouble: GraphTrouble) -> ConfigProblem:
    """What its owner has to put right."""
    if trouble.code in TOKEN_CODES:
        return ConfigProblem(BAD_TOKEN, fix=BAD_TOKEN_FIX)
    meaning = find_meaning(trouble)
    if meaning.lasting:
        return ConfigProblem(meaning.sentence, fix="See to it, and run `hermes setup whatsapp` if something is new.")
    return ConfigProblem(
        f"WhatsApp cannot be asked: {trouble}.", fix="Check the network and the settings, and try again."
    )


def describe_number(about: Mapping[str, Any], account: str) -> str:
    return (
        f"It is {about.get('display_phone_number')} ({about.get('verified_name')}); WhatsApp's webhook has to lead to "
        f"/hooks/{SPEC.name}/{account}, below the https address of this Hermes."
    )
