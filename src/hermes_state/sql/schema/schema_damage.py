"""The table of what could not be read and was set aside: its bytes are kept for the operator until they are old."""

STATEMENTS: tuple[str, ...] = (
    """create table damaged (
        id integer primary key,
        source text not null,
        key text not null,
        conversation text not null,
        session text not null,
        body blob not null,
        problem text not null,
        found real not null
    )""",
    "create index damaged_found on damaged(found)",
    "create index damaged_conversation on damaged(conversation)",
    "create index damaged_session on damaged(session)",
)
