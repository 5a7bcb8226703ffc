"""The command: runs the checks, and fails if one found something wrong. Layer: cli.

The checks of the file or the server come first, and write nothing: they work, and say why, where the store itself
cannot be opened.
"""

from __future__ import annotations

from collections import Counter

import click

from outlast.cli.doctor.findings import Finding, Level
from outlast.cli.doctor.sqlite_file import check_file
from outlast.cli.doctor.store import check_store
from outlast.cli.doctor.verify import verify
from outlast.cli.exits import ExitCode
from outlast.cli.options import Settings, shared_options
from outlast.cli.output import STYLES, Output
from outlast.cli.stopping import run_briefly
from outlast.cli.store_choice import choose_shared_url, choose_url, postgres_settings, sqlite_settings, without_password

__all__ = ["doctor"]


@click.command()
@click.option("--verify", "verifies", is_flag=True, help="Read every journal, and tell which invariants are broken.")
@click.option("--run", "run_id", metavar="RUN", help="With --verify: this run alone.")
@shared_options
@click.pass_obj
def doctor(settings: Settings, /, *, verifies: bool, run_id: str | None) -> ExitCode:
    """Check the store, its workers and its runs, and say what to do. Exits 1 if something is wrong.

    It changes nothing. With --verify it reads all that the store holds, one run at a time, beside running workers too.
    """
    if run_id is not None and not verifies:
        raise click.UsageError("--run goes with --verify.")
    output = settings.output()
    url = choose_shared_url(settings.store)
    findings: list[Finding] = []
    may_open = True
    if (file := sqlite_settings(url)) is not None:
        findings, may_open = check_file(file)
    elif (server := postgres_settings(url)) is not None:
        from outlast.cli.doctor.postgres_server import check_server

        findings, may_open = run_briefly(lambda: check_server(server))
    document: dict[str, object] = {"store": without_password(url), "findings": findings}
    if may_open:
        findings += run_briefly(lambda: check_store(url))
        if verifies:
            verdict, document["verified"] = run_briefly(lambda: verify(url, run_id))
            findings += verdict
    output.emit(document)
    _tell(output, without_password(url), findings)
    is_wrong = any(finding.level is Level.WRONG for finding in findings)
    return ExitCode.FAILED if is_wrong else ExitCode.COMPLETED


def _tell(output: Output, url: str, findings: list[Finding]) -> None:
    output.say(f"Store {url}")
    for finding in findings:
        output.say(f"{finding.level:<6} {finding.check}: {finding.text}", style=STYLES.get(finding.level))
        if finding.todo:
            output.say(f"       {finding.todo}")
    if url != without_password(choose_url(None)) and any("outlast " in finding.todo for finding in findings):
        output.say(f"These commands are for --store {url}.")
    counts = Counter(finding.level for finding in findings)
    found = counts[Level.WRONG]
    if not found:
        output.say("Nothing is wrong.")
    else:
        output.say(f"{found} thing{'s are' if found > 1 else ' is'} wrong.")
