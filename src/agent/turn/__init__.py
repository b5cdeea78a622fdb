"""The turn: its rules, the driver that performs them, and the conversation that it works on."""
