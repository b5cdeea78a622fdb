"""The files of the log by name, for plugins that show it; `hermes logs` shows it to people."""

from pathlib import Path

from hermes_cli.config.logs import FILE, read_tail

#: Below `logs` of the home. One process writes one log: there is none for errors alone.
LOG_FILES: dict[str, str] = {"gateway": FILE}


def _read_tail(path: Path | str, num_lines: int) -> list[str]:
    """The last lines, in order, each as it stands in the file (JSON); older files count, too."""
    return read_tail(Path(path), num_lines)
