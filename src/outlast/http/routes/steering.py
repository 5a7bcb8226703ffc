"""Routes that steer runs. Layer: http.

What always holds: when one answers, what it was asked for is stored; and it is asked only by who may see the run.
"""

from __future__ import annotations

from outlast.errors import RunExists
from outlast.http.reach import check_visible, find_run, run_path
from outlast.http.route import Call, Nothing, Reply
from outlast.http.shapes import CancelAnswer, CancelRequest, Done, FindRun, ForkRequest, ResumeRequest

__all__ = ["cancel_run", "delete_run", "fork_run", "resume_run", "retry_run"]


async def cancel_run(call: Call[FindRun, CancelRequest]) -> CancelAnswer:
    """Ask a run to stop. Its body may clean up first, so it ends when that is done."""
    run, _ = await find_run(call)
    is_sent = await run.cancel(call.body.reason, force=call.body.force)
    return CancelAnswer(id=run.id, uid=run.uid, is_sent=is_sent)


async def resume_run(call: Call[FindRun, ResumeRequest]) -> Done:
    """Let a suspended run go on."""
    run, _ = await find_run(call)
    await run.resume(call.body.reason)
    return Done(id=run.id, uid=run.uid)


async def retry_run(call: Call[FindRun, Nothing]) -> Done:
    """Let a failed run go on from what failed, with a fresh budget of attempts; what succeeded stays."""
    run, _ = await find_run(call)
    await run.retry()
    return Done(id=run.id, uid=run.uid)


async def fork_run(call: Call[FindRun, ForkRequest]) -> Reply[Done]:
    """Start a new run from a copy of this one's journal before the step `at`, with the code at hand.

    This one goes on as it is. `results` replaces results of steps before `at`, by key.
    """
    run, _ = await find_run(call)
    try:
        fork = await run.fork(at=call.body.at, results=call.body.results, id=call.body.id)
    except RunExists:  # which says how the other run stands
        await check_visible(call, call.body.id)
        raise
    location = call.root + run_path(fork.id, fork.uid)
    return Reply(Done(id=fork.id, uid=fork.uid), 201, {"location": location})


async def delete_run(call: Call[FindRun, Nothing]) -> None:
    """Delete an ended run, with its journal and all else that is its own."""
    run, _ = await find_run(call)
    await run.delete()
