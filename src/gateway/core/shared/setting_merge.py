"""What becomes of the settings for all when the file of a gateway and the store say different things. Pure.

Three states are compared, value by value: what the file says, what the store says, and what both said when they were
last alike. Who has changed a value since then is followed; if both have, whoever did so later is.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

Values = Mapping[str, str]  # by the names of a setting; as they are kept


@dataclass(frozen=True, slots=True)
class SettingMerge:
    put: dict[str, str] = field(default_factory=dict)  # what the file says is said for all
    drop: set[str] = field(default_factory=set)  # the file says it no more, so nobody does
    take: dict[str, str] = field(default_factory=dict)  # what the others say goes into the file
    leave: set[str] = field(default_factory=set)  # the others say it no more, so it goes out of the file
    lost: set[str] = field(default_factory=set)  # of those the ones that the file said otherwise, and not for all

    @property
    def gives(self) -> bool:
        return bool(self.put or self.drop)

    @property
    def takes(self) -> bool:
        return bool(self.take or self.leave)


def merge_settings(
    file: Values, alike: Values | None, stored: Values | None, newer: Collection[str] = ()
) -> SettingMerge:
    """`alike` is None in a gateway that has not shared its settings with this store before: it takes over what the
    others have. `stored` is None where nobody has: what the file says is said for all. `newer`: of what both have
    changed, what was changed later in the file."""
    merged = SettingMerge()
    if stored is None:
        merged.put.update(file)
        return merged
    if not file and alike:  # it was emptied or lost: nobody means to unset everything for everybody
        alike = {}
    known = file if alike is None else alike
    for key in {*file, *stored, *known}:
        here, there, before = file.get(key), stored.get(key), known.get(key)
        if here == there:
            continue
        is_ours = there == before or (here != before and key in newer)
        if is_ours and alike is not None:
            if here is None:
                merged.drop.add(key)
            else:
                merged.put[key] = here
            continue
        if there is None:
            merged.leave.add(key)
        else:
            merged.take[key] = there
        if here is not None and (here != before or alike is None):
            merged.lost.add(key)
    return merged
