"""Decide, render, deliver: what stands between the platforms and the agents."""
