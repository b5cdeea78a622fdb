"""What is used only when every gateway knows it, decided on the versions that live (I5)."""

import pytest

from gateway.core.feature_gate import find_withheld, read_version

SINCE = {"threads": "1.1.0", "stars": "1.10.0"}


@pytest.mark.parametrize(
    ("versions", "withheld"),
    [
        ([], {"threads", "stars"}),
        (["1.0.0"], {"threads", "stars"}),
        (["1.1.0", "1.0.9"], {"threads", "stars"}),
        (["1.1.0"], {"stars"}),
        (["1.9.0", "1.10.0"], {"stars"}),
        (["1.10.0", "2.0"], set()),
        (["1.10.0", "what is this"], {"threads", "stars"}),
    ],
)
def test_the_lowest_version_decides(versions: list[str], withheld: set[str]) -> None:
    """I5: numbers are compared as numbers, and what is no version knows nothing."""
    assert find_withheld(versions, SINCE) == withheld


def test_a_version_is_read_as_numbers() -> None:
    assert read_version("1.10.0") > read_version("1.9.9") > read_version("1.9.0rc1") > read_version("")
