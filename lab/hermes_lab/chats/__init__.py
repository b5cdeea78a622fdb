"""Servers of chat apps on this machine, which judge who calls them; a folder for each app, and what they share.

`hermes lab NAME` calls `serve(port)` of the folder's `NAME_lab` module.
"""
