"""I2: who takes what is new, and who gives up what is idle."""

import pytest

from gateway.core.fair_share import SLACK, Share, count_now, count_surplus, find_room


@pytest.mark.parametrize(
    ("share", "room", "surplus"),
    [
        (Share(), 100, 0),
        (Share(1, 5000, 5000), 100, 0),  # alone, everything is ours
        (Share(0, 10, 10), 100, 0),  # it drains, and nobody else is there
        (Share(2, 0, 0), SLACK, 0),
        (Share(2, 10, 5), SLACK, 0),
        (Share(2, 10, 5 + SLACK), 0, 0),
        (Share(2, 10, 10), 0, 2),
        (Share(3, 60, 60), 0, 3),
        (Share(2, 1000, 1000), 0, 49),
        (Share(2, 9, 8), 0, 1),
        (Share(3, 60, 0), 22, 0),
    ],
)
def test_a_process_takes_its_share_and_gives_up_little_by_little(share: Share, room: int, surplus: int) -> None:
    assert find_room(share, 100) == room
    assert count_surplus(share) == surplus


def test_what_was_claimed_since_the_last_look_counts() -> None:
    assert count_now(Share(2, 10, 5), 7) == Share(2, 12, 7)
    assert count_now(Share(2, 10, 5), 0) == Share(2, 5, 0)


@pytest.mark.parametrize("nodes", [2, 3, 7])
def test_after_a_while_nobody_has_too_much(nodes: int) -> None:
    """One had everything; the others take what is given up as far as they have room, and then nothing moves."""
    owned = [500] + [0] * (nodes - 1)
    for _ in range(2000):
        given = count_surplus(Share(nodes, 500, owned[0]))
        owned[0] -= given
        for other in range(1, nodes):
            taken = find_room(Share(nodes, 500, owned[other]), given)
            owned[other] += taken
            given -= taken
        assert given == 0
    assert max(owned) <= -(-500 // nodes) + SLACK
    assert sum(owned) == 500
