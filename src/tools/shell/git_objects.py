"""Whether a repository holds a file's very content: then git shows it to whoever sees the repository, hidden or not.

Read without git, since the repository may be a command's making. Nobody can put a name there without the content.
"""

import hashlib
import os
from bisect import bisect_left

from hermes_constants.ordinary_files import open_file

LARGEST = 1024 * 1024
INDEX_HEAD = b"\xfftOc\x00\x00\x00\x02"
FAN, NAME = 256 * 4, 20


def is_committed(path: str, git: str) -> bool:
    """Whether the content of an ordinary file is an object of the repository whose git folder this is."""
    try:
        with open_file(path) as file:
            data = file.read(LARGEST + 1)
    except OSError:
        return False
    if len(data) > LARGEST:
        return False
    name = hashlib.sha1(b"blob %d\0" % len(data) + data, usedforsecurity=False)
    objects = os.path.join(git, "objects")
    loose = os.path.join(objects, name.hexdigest()[:2], name.hexdigest()[2:])
    if os.path.isfile(loose):
        return True
    try:
        packs = os.scandir(os.path.join(objects, "pack"))
        indexes = [entry.path for entry in packs if entry.name.endswith(".idx") and entry.is_file()]
        return any(_is_in_index(index, name.digest()) for index in indexes)
    except OSError:
        return False


def _is_in_index(path: str, name: bytes) -> bool:
    with open(path, "rb") as file:
        if file.read(len(INDEX_HEAD)) != INDEX_HEAD:
            return False
        fan = file.read(FAN)
        if len(fan) != FAN:
            return False
        ends = [int.from_bytes(fan[at : at + 4], "big") for at in range(0, FAN, 4)]
        places = range(ends[name[0] - 1] if name[0] else 0, ends[name[0]])  # of the names with this first byte

        def read_name(place: int) -> bytes:
            file.seek(len(INDEX_HEAD) + FAN + NAME * place)
            return file.read(NAME)

        at = bisect_left(places, name, key=read_name)
        return at < len(places) and read_name(places[at]) == name
