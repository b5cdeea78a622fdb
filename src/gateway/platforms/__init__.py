"""The platforms: each is a folder beside this file with a `SPEC`; adding one edits no other file."""
