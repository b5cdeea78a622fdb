"""Telegram's Bot API as a server on this machine."""
