"""Chat platforms of plugins, seen from the host: hands the settings in that their modules (`gateway.config`) read."""

import logging
from collections.abc import Mapping
from typing import Any

from gateway.config import HouseFacts, hand_in
from hermes_base.errors import ConfigProblem
from hermes_cli import config as cli_config
from hermes_cli.profiles import get_active_profile_name

log = logging.getLogger("hermes_cli.plugins")


def read_yaml() -> Mapping[str, Any]:
    """The settings; none while they cannot be used, so that a broken file switches nothing on."""
    try:
        return cli_config.load_config_readonly()  # noqa: TID251 - what plugins own has no attribute
    except ConfigProblem as problem:
        log.warning("platforms of plugins go without settings: %s", problem)
        return {}


hand_in(HouseFacts(read_yaml, get_active_profile_name))
