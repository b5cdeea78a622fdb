"""Every test has a home of its own, no keys, and the lab server for a model."""

import gc
import itertools
import os
import re
import signal
from collections.abc import Generator, Iterator
from functools import cache
from pathlib import Path

import other_engine
import pytest
from built_in_model import end_built_in_model
from fresh_store import close_fresh_stores
from hypothesis import HealthCheck, settings
from postgres_server import ROLE, get_server
from quick_folder import QUICK_FOLDER

from agent.providers.health import health
from gateway import platforms
from hermes_cli.config.lent_env import lend
from hermes_lab.server import LabServer
from hermes_state.sql.store_sql import Store
from tools.process_registry import process_registry

pytest.register_assert_rewrite("platform_suite")  # what it compares is shown when it fails

# These machines are noisy: how long an example takes says nothing about the code.
# Half of the usual number: the tests run often, and each time on other examples.
EXAMPLES = int(os.environ.get("HERMES_EXAMPLES", "50"))
settings.register_profile("steady", max_examples=EXAMPLES, deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("steady")

# A chat service that misbehaves as told: a platform like any other, which only tests have.
platforms.__path__.append(str(Path(__file__).parent / "support" / "platforms"))


if other_engine.IS_POSTGRES:
    other_engine.take_effect()


def pytest_configure() -> None:
    """Whoever starts the tests in the background has them ignore Ctrl-C, and so would every process that they begin."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_xdist_auto_num_workers() -> int:
    """Tests wait more than they compute: four for each core, and not more than memory carries, a gigabyte for each."""
    gigabytes = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") >> 30
    return max(1, min(4 * (os.cpu_count() or 1), gigabytes, 16))


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Ten thousand collected tests are never garbage, nor are the modules that they stand in. Looked through again and
    again they cost seconds, a third of one at a time, on whichever thread it falls: while they are collected, and later
    on an event loop that is watched, too."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


_numbers = itertools.count()
#: Folders of tests in which no tool works in a folder of the test.
WITHOUT_TOOLS = {"agent", "state"}


@pytest.fixture
def tmp_path(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """As pytest's own, without a link to the newest folder of each name: to move it takes longer than most tests. It is
    in memory where no tool is to find it: nothing below /dev is a folder to work in."""
    name = re.sub(r"\W", "_", request.node.originalname or "test")[:20]
    usual = tmp_path_factory.getbasetemp()
    works_with_tools = request.path.relative_to(Path(__file__).parent).parts[0] not in WITHOUT_TOOLS
    folder = (usual if works_with_tools else _find_quick(usual)) / f"{name}-{next(_numbers)}"
    folder.mkdir(0o700)
    return folder


@cache
def _find_quick(usual: Path) -> Path:
    if QUICK_FOLDER is None:
        return usual
    root = Path(QUICK_FOLDER, usual.name)  # each worker has a name of its own
    root.mkdir(0o700)
    return root


@pytest.fixture(autouse=True)
def _databases(tmp_path: Path) -> Iterator[None]:
    """With the other engine, the test's homes have their stores there."""
    if other_engine.IS_POSTGRES:
        other_engine.use_server(_make_empty_store())
    yield
    if other_engine.IS_POSTGRES:
        other_engine.drop_databases(tmp_path)


@cache
def _make_empty_store() -> str:
    """Of which all others of this process are copies."""
    server = get_server()
    address = server.make_database()
    Store(address).close()
    with server.connect() as admin:
        admin.execute(f"alter role {ROLE} createdb")
    return address


@pytest.fixture(autouse=True)
def home(_databases: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty home; keys of the machine's owner must not reach a test."""
    folder = tmp_path / "home"
    monkeypatch.setenv("HERMES_HOME", str(folder))
    for name in list(os.environ):
        if name.endswith(("_API_KEY", "_TOKEN")) or name == "HERMES_PROFILE":
            monkeypatch.delenv(name)
    return folder


@pytest.fixture(scope="session", autouse=True)
def _no_model_is_left() -> Iterator[None]:
    """The built-in model serves all tests of a process, and would go on until that is gone."""
    yield
    end_built_in_model()


@pytest.fixture(autouse=True)
def _stores_are_closed() -> Iterator[None]:
    yield
    close_fresh_stores()


@pytest.fixture(autouse=True)
def _commands_are_ended() -> Iterator[None]:
    """A process that one test leaves running is one that the next takes for its own."""
    yield
    process_registry.kill_all()


@pytest.fixture(autouse=True)
def well_providers() -> None:
    """Health is shared by the whole process; a failure in one test must not open a circuit in the next."""
    health.forget()


@pytest.fixture(autouse=True)
def _nothing_is_lent() -> Iterator[None]:
    """What plugins of one test read in the environment is not there in the next."""
    yield
    lend({})


@pytest.fixture
def lab() -> Iterator[LabServer]:
    with LabServer() as server:
        yield server
