"""Requests and answers of the API as values, in the formats of OpenAI."""
