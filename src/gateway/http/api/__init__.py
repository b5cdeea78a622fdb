"""The API: what OpenAI clients and programs talk to."""
