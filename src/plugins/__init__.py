"""Plugins that come with the host: context engines, memory providers, platforms."""
