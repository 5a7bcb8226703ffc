"""A body, and the same body run from its stored plan, side by side."""

from __future__ import annotations

import contextlib
import linecache
import sys
from collections.abc import Callable, Generator
from random import Random
from types import ModuleType
from typing import Any

from outlast.authoring.exceptions import encode_error
from outlast.authoring.module import Module
from outlast.authoring.source.stored import StoredBody
from outlast.authoring.workflow import RunFacts, Workflow
from outlast.core.machine import Machine
from outlast.core.program.language import decode_program
from tests.authoring.player import LOG, Player

AnyWorkflow = Workflow[..., Any]


class StoredPlayer(Player):
    """Plays the stored plan of a workflow instead of its code."""

    def make_machine(self) -> Machine:
        program = decode_program(self.workflow.definition_json())
        assert program is not None, self.workflow.plan
        body = StoredBody(program, self.workflow, self.workflow.version)
        facts = RunFacts(registry=self.registry, log=LOG)
        return Machine(self.started, lambda machine: body.run_body(machine, facts), encode_error)


@contextlib.contextmanager
def declared(source: str, name: str) -> Generator[tuple[Module, AnyWorkflow]]:
    """A module from source that can be read again; its workflow is called `body`."""
    file = f"<{name}>"
    linecache.cache[file] = (len(source), None, source.splitlines(keepends=True), file)
    module = sys.modules[name] = ModuleType(name)
    try:
        exec(compile(source, file, "exec"), vars(module))
        yield module.app, module.body
    finally:
        del sys.modules[name], linecache.cache[file]


async def play_both(app: Module, body: AnyWorkflow, seed: int, *args: Any) -> tuple[list[Any], list[Any]]:
    """The journals of both, where steps end in an order that the seed decides."""
    journals = []
    for player_of in (Player, StoredPlayer):
        player = player_of(body, *args, registry=app)
        await player.play(chooser(seed))
        assert player.machine.halted is None, player.machine.halted
        journals.append(list(player.journal))
        player.machine.evict()
    return journals[0], journals[1]


def chooser(seed: int) -> Callable[[list[str]], str]:
    random = Random(seed)
    return lambda keys: random.choice(keys)
