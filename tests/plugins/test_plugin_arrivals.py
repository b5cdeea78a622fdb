"""What a source is called, and what comes out of hostile ones."""

import io
import stat
import tarfile
import zipfile
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from hermes_base.errors import ConfigProblem
from hermes_cli import plugins_cmd
from hermes_cli.plugins_cmd import plugin_archives
from hermes_cli.plugins_cmd.plugin_archives import BadArchive, unpack
from hermes_cli.plugins_cmd.plugin_fetching import find_archive_address
from hermes_cli.plugins_cmd.source_names import (
    ARCHIVE,
    FOLDER,
    GIT,
    PACKAGE,
    PluginSource,
    is_bare_name,
    is_unprotected,
    name_source,
    read_source,
)

HUB = "https://github.com/owner/repo"


@pytest.mark.parametrize(
    ("text", "meant", "name"),
    [
        ("owner/repo", PluginSource(GIT, HUB), "repo"),
        ("owner/repo.git", PluginSource(GIT, HUB), "repo"),
        ("owner/repo/sub/folder", PluginSource(GIT, HUB, sub="sub/folder"), "folder"),
        (HUB, PluginSource(GIT, HUB), "repo"),
        (f"{HUB}.git", PluginSource(GIT, f"{HUB}.git"), "repo"),
        (f"{HUB}.git/sub", PluginSource(GIT, f"{HUB}.git", sub="sub"), "sub"),
        (f"{HUB}#sub", PluginSource(GIT, HUB, sub="sub"), "sub"),
        (f"{HUB}/tree/main/a/b", PluginSource(GIT, HUB, "main", "a/b"), "b"),
        (f"{HUB}/tree/main", PluginSource(GIT, HUB, "main"), "repo"),
        ("https://gitlab.com/g/r/-/tree/dev/x", PluginSource(GIT, "https://gitlab.com/g/r", "dev", "x"), "x"),
        ("git@github.com:owner/repo.git", PluginSource(GIT, "git@github.com:owner/repo.git"), "repo"),
        ("git@host:repo.git/sub", PluginSource(GIT, "git@host:repo.git", sub="sub"), "sub"),
        ("ssh://git@host/o/r.git#s", PluginSource(GIT, "ssh://git@host/o/r.git", sub="s"), "s"),
        ("file:///srv/r", PluginSource(GIT, "file:///srv/r"), "r"),
        ("http://host/r.git", PluginSource(GIT, "http://host/r.git"), "r"),
        ("https://host/p-1.tar.gz#in", PluginSource(ARCHIVE, "https://host/p-1.tar.gz", sub="in"), "in"),
        ("https://host/p.zip", PluginSource(ARCHIVE, "https://host/p.zip"), "p"),
        ("pip:some-plugin==1.2", PluginSource(PACKAGE, "some-plugin==1.2"), "some-plugin==1.2"),
        ("some-plugin", PluginSource(PACKAGE, "some-plugin"), "some-plugin"),
    ],
)
def test_what_is_meant(text, meant, name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert read_source(text) == meant
    assert name_source(meant) == name
    assert is_bare_name(text) == (text == "some-plugin")
    assert is_unprotected(meant) == text.startswith("http://")


def test_a_folder_that_is_there_is_meant(tmp_path, monkeypatch):
    """READMEs show a path where owner/repo could stand."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "owner" / "repo").mkdir(parents=True)
    (tmp_path / "x.zip").write_bytes(b"")
    assert (
        read_source("owner/repo") == read_source("./owner/repo") == PluginSource(FOLDER, str(tmp_path / "owner/repo"))
    )
    assert read_source("x.zip") == PluginSource(ARCHIVE, str(tmp_path / "x.zip"))
    with pytest.raises(ConfigProblem, match="does not exist"):
        read_source("./absent")


@pytest.mark.parametrize(
    "text",
    [
        *("", "--upload-pack=x", "ext::sh -c x", "owner/repo/../../x", f"{HUB}#../x", f"{HUB}/tree/main/../../x"),
        *("https://user:pass@host/r", "https://token@host/r", "ftp://host/r", "a b/c d", "owner/-repo", "x\ny/z"),
        *("pip:--index-url=x", "pip:x @ https://host/x.whl", "pip:", f"{HUB}#.git/hooks"),
    ],
)
def test_what_is_refused(text, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ConfigProblem):
        read_source(text)


@given(st.text(max_size=40))
@example("~nobody-of-this-name/plugin")
@example("~\ud800")
@example("/" + "x" * 5000)
@example("x" * 5000)
def test_every_text_is_meant_or_refused(text):
    try:
        found = read_source(text)
    except ConfigProblem:
        return
    assert not found.address.startswith("-")
    assert ".." not in found.sub.split("/")


def test_where_hosts_offer_archives():
    found = find_archive_address(PluginSource(GIT, "https://codeberg.org/o/r.git", "dev"))
    assert found == "https://codeberg.org/o/r/archive/dev.tar.gz"
    assert find_archive_address(PluginSource(GIT, "ssh://git@github.com/o/r")) == ""


# --- archives


def tar_of(path: Path, *members: tuple[tarfile.TarInfo, bytes]) -> Path:
    with tarfile.open(path, "w:gz") as tar:
        for info, data in members:
            info.size = len(data)
            tar.addfile(info, io.BytesIO(data))
    return path


def member(name: str, kind: bytes = tarfile.REGTYPE, link: str = "") -> tarfile.TarInfo:
    info = tarfile.TarInfo(name)
    info.type, info.linkname = kind, link
    return info


HOSTILE = {
    "out": [(member("../out.txt"), b"x")],
    "deep": [(member("p/../../out.txt"), b"x")],
    "absolute": [(member("/out.txt"), b"x")],
    "backslash": [(member("..\\out.txt"), b"x")],
    "link": [(member("p/l", tarfile.SYMTYPE, "/etc"), b"")],
    "through a link": [(member("l", tarfile.SYMTYPE, ".."), b""), (member("l/out.txt"), b"x")],
    "hard link": [(member("h", tarfile.LNKTYPE, "../out.txt"), b"")],
    "pipe": [(member("f", tarfile.FIFOTYPE), b"")],
    "device": [(member("d", tarfile.CHRTYPE), b"")],
    "twice": [(member("a"), b"x"), (member("./a"), b"y")],
    "file and folder": [(member("a"), b"x"), (member("a/b"), b"y")],
    "control": [(member("a\nb"), b"x")],
    "long": [(member("a" * 300), b"x")],
}


@pytest.mark.parametrize("members", HOSTILE.values(), ids=HOSTILE)
def test_hostile_tars(members, tmp_path):
    """G7: nothing is written outside of the folder, and the reason is a sentence."""
    target = tmp_path / "target"
    target.mkdir()
    with pytest.raises(BadArchive, match="is not unpacked"):
        unpack(tar_of(tmp_path / "a.tar.gz", *members), target)
    assert not (tmp_path / "out.txt").exists()
    assert not any(path.is_symlink() for path in target.rglob("*"))


@pytest.mark.parametrize(
    ("name", "mode"), [("../out.txt", 0), ("/out.txt", 0), ("l", stat.S_IFLNK), ("f", stat.S_IFIFO)]
)
def test_hostile_zips(name, mode, tmp_path):
    info = zipfile.ZipInfo(name)
    info.external_attr = mode << 16
    with zipfile.ZipFile(tmp_path / "a.zip", "w") as archive:
        archive.writestr(info, "x")
    target = tmp_path / "target"
    target.mkdir()
    with pytest.raises(BadArchive):
        unpack(tmp_path / "a.zip", target)
    assert not (tmp_path / "out.txt").exists()
    assert not list(target.iterdir())


def test_bombs_are_not_unpacked(tmp_path, monkeypatch):
    monkeypatch.setattr(plugin_archives, "MOST_BYTES", 100_000)
    monkeypatch.setattr(plugin_archives, "MOST_FILES", 20)
    big = b"\0" * 1_000_000
    tar_of(tmp_path / "big.tar.gz", (member("a"), big))
    tar_of(tmp_path / "many.tar.gz", *((member(str(n)), b"") for n in range(30)))
    with zipfile.ZipFile(tmp_path / "big.zip", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("a", big)
    for number, name in enumerate(("big.tar.gz", "many.tar.gz", "big.zip")):
        target = tmp_path / str(number)
        target.mkdir()
        with pytest.raises(BadArchive, match="too"):
            unpack(tmp_path / name, target)
        assert sum(path.stat().st_size for path in target.rglob("*")) <= 100_000


@pytest.mark.parametrize("data", [b"", b"no archive", b"\x1f\x8b", b"PK\x03\x04", b"\x1f\x8b\x08" + b"\0" * 50])
def test_broken_archives_are_a_sentence(data, tmp_path, home):
    (tmp_path / "a.tar.gz").write_bytes(data)
    with pytest.raises(ConfigProblem):
        plugins_cmd.main(["install", str(tmp_path / "a.tar.gz")])
    assert not list((home / "plugins").iterdir())
