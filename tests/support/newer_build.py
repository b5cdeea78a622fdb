"""The next version of this program, as a copy of its code: a higher number, one column more, and one feature that is
used only when every gateway on the store knows it (it writes into that column which version heard a message)."""

import shutil
from pathlib import Path

import hermes_constants

VERSION = "1.1.0"
FEATURE = "say who heard it"
COLUMN = "heard_by"
#: File, what stands there once, and what stands there in the next version.
CHANGES = (
    ("hermes_constants/__init__.py", f'VERSION = "{hermes_constants.VERSION}"', f'VERSION = "{VERSION}"'),
    (
        "gateway/core/feature_gate.py",
        "SINCE: Mapping[str, str] = {",
        f'SINCE: Mapping[str, str] = {{"{FEATURE}": "{VERSION}", ',
    ),
    (
        "hermes_state/sql/schema.py",
        "SCHEMA_VERSION = MIGRATIONS[-1].version\n",
        f"""_HEARD = ("alter table inbox add column {COLUMN} text not null default ''",)
MIGRATIONS += (Migration(MIGRATIONS[-1].version + 1, MIGRATIONS[-1].min_reader, _HEARD),)
SCHEMA_VERSION = MIGRATIONS[-1].version
""",
    ),
    (
        "gateway/service/gateway.py",
        "        return None if seq is None else Heard(seq, inbound)\n",
        f"""        if seq is not None and self.pulse.has("{FEATURE}"):
            note = "update inbox set {COLUMN} = ? where conversation = ? and seq = ?"
            self.store.engine.write(lambda db: db.execute(note, (VERSION, key, seq)))
        return None if seq is None else Heard(seq, inbound)
""",
    ),
)


def make_newer_build(folder: Path) -> Path:
    """Where its packages are."""
    source = Path(hermes_constants.__file__).parents[1]
    made = shutil.copytree(source, folder / "newer", symlinks=True)  # with what was compiled, and its times
    for name, now, then in CHANGES:
        text = (made / name).read_text()
        assert text.count(now) == 1, f"{name} does not say once: {now}"
        (made / name).write_text(text.replace(now, then))
    return made
