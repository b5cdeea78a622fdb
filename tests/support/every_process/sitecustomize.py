"""Python imports this at the start of every process that the tests begin while their stores are databases."""

from pathlib import Path
from sys import path

path.append(str(Path(__file__).parents[1]))

import other_engine

other_engine.take_effect()
