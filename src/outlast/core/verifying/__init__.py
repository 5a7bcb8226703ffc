"""What must hold of a journal, whatever happened: checks that find where it does not. Layer: core.

Each takes a whole journal and tells what is broken, one sentence each; nothing told means all is well. A prefix of a
journal is a journal: the checks hold for one that still grows. What stands elsewhere (rows, tasks, other runs) is
compared by `outlast.engine.verifying`.
"""

from collections.abc import Sequence

from outlast.core.events import Event
from outlast.core.verifying.answers import check_answers, check_unwind
from outlast.core.verifying.broken import Broken, Rule
from outlast.core.verifying.shape import PlacedJournal, check_marks, check_shape, flatten
from outlast.core.verifying.steps import check_steps, check_timers

__all__ = ["Broken", "PlacedJournal", "Rule", "check_events", "check_form", "flatten"]


def check_form(journal: PlacedJournal) -> list[Broken]:
    """Whether it is a journal at all: where it is not, nothing else can be said of it."""
    return [*check_shape(journal), *check_marks(journal)]


def check_events(events: Sequence[Event]) -> list[Broken]:
    """All that the events of one journal show."""
    return [*check_steps(events), *check_timers(events), *check_answers(events), *check_unwind(events)]
