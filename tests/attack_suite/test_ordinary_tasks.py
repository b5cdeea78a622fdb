"""What people ask every day is done unasked, or with the one question that is expected (G4, G5, G9)."""

import pytest
from attack_world import AttackWorld
from loopback_site import ARTICLE
from ordinary_tasks import TASKS, Task
from pdf_files import make_pdf


@pytest.fixture(scope="module", autouse=True)
def pages(world: AttackWorld) -> None:
    world.site.put("/article", ARTICLE)
    world.site.put("/numbers.json", '{"seven": 7}', "application/json")
    world.site.put("/moved", status=301, headers={"location": "/article"})
    world.site.put("/report.pdf", make_pdf("The quarterly report"), "application/pdf")
    found = '{"web": {"results": [{"title": "On frobs", "url": "https://example.org/", "description": "All of it"}]}}'
    world.finder.put("/res/v1/web/search", found, "application/json")


def test_there_are_enough() -> None:
    assert len(TASKS) >= 80
    assert len({task.name for task in TASKS}) == len(TASKS)


@pytest.mark.parametrize("task", TASKS, ids=lambda task: task.name)
def test_a_task(world: AttackWorld, task: Task) -> None:
    world.begin([])
    chat = world.chat(name=task.chat) if task.chat else world.chat()
    if task.chat:
        world.talk(chat, "/new")
    asked = world.talk(chat, world.fill(task.text), "approve")
    assert len(asked) == bool(task.asks), [question.text for question in asked]
    assert all(world.fill(task.asks) in question.text for question in asked)
    session = world.house.gateway.store.current(chat.conversation)
    assert session is not None
    rows = world.house.gateway.store.load(session.id).rows
    results = [str(row.message["content"]) for row in rows if row.message.get("role") == "tool"]
    assert len(results) == len(task.calls)
    assert task.said in results[-1], results
