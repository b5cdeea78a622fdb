"""Which files of a working folder become a part of the system prompt."""

#: The first that exists is taken; nested ones may be read by other programs, or by a terminal that starts there.
CONTEXT_FILES = ("AGENTS.md", "CLAUDE.md", ".cursorrules", "HERMES.md", ".hermes.md")
