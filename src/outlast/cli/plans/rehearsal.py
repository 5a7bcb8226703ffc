"""`outlast check --store`: would the runs in a store go on with this code? Layer: cli."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import aclosing

from outlast.cli.exits import CommandError, ExitCode
from outlast.cli.output import Output
from outlast.cli.stopping import run_briefly
from outlast.cli.store_choice import app_on, existing_store, without_password
from outlast.cli.target import Target
from outlast.engine.versions.rehearsing import Rehearsal

__all__ = ["check_store"]

MOST_TOLD = 20


def check_store(url: str, output: Output, targets: Sequence[Target]) -> ExitCode:
    """Replay the live runs of a store against the app of these workflows. Raises CommandError where there are two."""
    existing_store(url)  # a wrong --store is told, not made
    apps = {id(target.app): target.app for target in targets}
    if len(apps) > 1:
        problem, todo = "There are several apps", "Name one, as in MODULE:app."
        raise CommandError("TARGET_NOT_FOUND", problem, "a store's runs are one app's", todo, ExitCode.USAGE)
    app = app_on(next(iter(apps.values())), url)

    async def replay() -> list[Rehearsal]:
        async with app, aclosing(app.rehearse()) as rehearsals:
            return [rehearsal async for rehearsal in rehearsals]

    with output.reserved():
        runs = run_briefly(replay)
    differing = [run for run in runs if not run.fits]
    output.emit({"runs": len(runs), "differing": differing})
    for run in differing[:MOST_TOLD]:
        _tell(output, run)
    if len(differing) > MOST_TOLD:
        output.say(f"… and {len(differing) - MOST_TOLD} more")
    verb = "does" if len(differing) == 1 else "do"
    output.say(f"{len(runs)} live runs in {without_password(url)}; {len(differing)} {verb} not fit the code")
    return ExitCode.FAILED if differing else ExitCode.COMPLETED


def _tell(output: Output, run: Rehearsal) -> None:
    output.say(f"run {run.id!r} of {run.workflow}, version {run.version}: {run.problem or f'they part {run.at}'}")
    if not run.problem:
        journal, code = "the journal", f"the code, version {run.found}"
        width = max(len(journal), len(code))
        output.say(f"  {journal:{width}}  {run.recorded}")
        output.say(f"  {code:{width}}  {run.asked}")
    if run.plan_fits:
        output.say("  It would go on from the stored plan of its version.")
