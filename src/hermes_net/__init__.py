"""Calls to addresses that others may have chosen: judged where they really lead, when they are connected (G8)."""
