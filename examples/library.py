"""An agent in a program of your own: a conversation of two questions, and a tool that the program brings along.

Run it with `python examples/library.py`. The model is found as in the chat; name another one with `model=`,
`provider=` or `base_url=` and `api_key=`.
"""

import os
from collections.abc import Mapping
from typing import Any

from run_agent import AIAgent
from tools.registry import registry

SCHEMA = {
    "description": "How high the tide stands at a place, in metres.",
    "parameters": {"type": "object", "properties": {"place": {"type": "string"}}, "required": ["place"]},
}


def read_tide(args: Mapping[str, Any]) -> str:
    return f"The tide at {args['place']} stands at 2.4 m."


def main() -> None:
    registry.register("read_tide", "tides", SCHEMA, read_tide)
    agent = AIAgent(
        base_url=os.environ.get("MODEL_URL"),  # unset: as in the chat
        api_key=os.environ.get("MODEL_KEY"),
        model=os.environ.get("MODEL_NAME", ""),
        enabled_toolsets=["tides"],
        ephemeral_system_prompt="Answer in one short sentence.",
    )
    try:
        for question in ("How high is the tide at Dover?", "Is that more than two metres?"):
            answer = agent.run_conversation(question)
            print(f"{question}\n  {answer['final_response']}")
    finally:
        agent.close()


if __name__ == "__main__":
    main()
