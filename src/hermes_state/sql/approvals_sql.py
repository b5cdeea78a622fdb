"""Kept approvals, as they are kept."""

from dataclasses import asdict, replace

from hermes_base.turn.consent import Deed
from hermes_state.approval_store import ApprovalRule, KeptAnswer, make_rule, make_rule_id
from hermes_state.sql.engines.engine import Sql, StorePart, Transaction
from hermes_state.texts import clean

_COLUMNS = tuple(ApprovalRule.__dataclass_fields__)
_RULE = ", ".join(_COLUMNS)
#: All of the deed is the same; only where the rule holds may be wider than the one conversation.
_SAME = (
    "person = :person and kind = :kind and folder = :folder and backend = :backend and level = :level "
    "and words = :words"
)
ADD_RULE = (
    f"insert into approval_rule ({_RULE}) values ({', '.join(f':{name}' for name in _COLUMNS)}) "
    "on conflict (id) do nothing"
)
DROP_SAME = f"delete from approval_rule where {_SAME} and conversation = :conversation and task = :task"
FIND_RULE = (
    f"select {_RULE} from approval_rule where {_SAME} and expires > clock() "
    "and (conversation = '' or (task <> '' and task = :task)) order by conversation, created, id limit 1"
)
USE_RULE = (
    "update approval_rule set last_used = clock(), times_used = times_used + 1 where id = ? and expires > clock()"
)
GET_RULES = f"select {_RULE} from approval_rule where expires > clock() order by created, id"
REVOKE_RULE = "delete from approval_rule where id = ?"
REVOKE_RULES = "delete from approval_rule"
#: Of a person: the rules for their turns, and those that they made for others.
DELETE_RULES_OF = "delete from approval_rule where person = ? or made_by = ?"
DELETE_RULES_BY = "delete from approval_rule where made_by = ?"
DELETE_RULES_IN = "delete from approval_rule where conversation = ?"
#: A conversation that has no session left has begun anew for good.
DELETE_RULES_OF_TASK = (
    "delete from approval_rule where task <> '' and task = (select task from session where id = :session) "
    "and not exists (select 1 from session o where o.task = approval_rule.task and o.id <> :session)"
)


class ApprovalStore(StorePart):
    def use(self, deed: Deed, person: str) -> ApprovalRule | None:
        """The rule that lets this person do exactly this, which is noted as used now; None: there is none."""
        wanted = {name: getattr(deed, name) for name in ("kind", "folder", "backend", "level", "words", "task")}

        def use(db: Transaction) -> ApprovalRule | None:
            found = db.execute(FIND_RULE, {**wanted, "person": clean(person)}).first
            if found is None:
                return None
            rule = ApprovalRule(*found)
            if not db.execute(USE_RULE, (rule.id,)).changed:
                return None
            return replace(rule, last_used=db.now(), times_used=rule.times_used + 1)

        if not self._db.find(FIND_RULE, {**wanted, "person": clean(person)}):
            return None  # as a rule there is none, and nothing has to be written
        return self._db.write(use)

    def rules(self) -> list[ApprovalRule]:
        """Those that hold, the earliest first."""
        return [ApprovalRule(*row) for row in self._db.find(GET_RULES)]

    def revoke(self, rule: str) -> bool:
        """It holds no more; False when there is none of this id."""
        return self._db.run(Sql(REVOKE_RULE, (rule,)))[0].changed > 0

    def revoke_all(self) -> int:
        return self._db.run(Sql(REVOKE_RULES))[0].changed


def keep_rule(db: Transaction, kept: KeptAnswer, made_by: str) -> ApprovalRule:
    """Inside a transaction. It takes the place of an earlier one for the same."""
    rule = make_rule(kept, made_by, db.now())
    db.execute(DROP_SAME, {name: getattr(rule, name) for name in _KEY})
    while not db.execute(ADD_RULE, asdict(rule)).changed:
        rule = replace(rule, id=make_rule_id())
    return rule


_KEY = ("person", "kind", "folder", "backend", "level", "words", "conversation", "task")
