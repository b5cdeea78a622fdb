"""Texts as Telegram reads them: its markup, and the entities that come of it."""
