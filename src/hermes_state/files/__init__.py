"""Where files of people are kept beside the home."""

from pathlib import Path

from hermes_base.files.home_files import HomeFiles
from hermes_state.files.folder_files import FolderFiles
from hermes_state.files.shared_folders import SharedFolders
from hermes_state.files.stored_files import StoredFiles
from hermes_state.sql.store_sql import Store


def open_files(home: Path, store: Store) -> HomeFiles:
    """A store that several gateways may share keeps the files for all of them; beside a file of the home they need no
    second place."""
    return StoredFiles(home, store.files) if store.engine.shared else FolderFiles(home)


def open_folders(home: Path, store: Store) -> SharedFolders | None:
    """The same for memory and skills; None: they stand in the home, and nobody else has them."""
    return SharedFolders(home, store.files) if store.engine.shared else None
