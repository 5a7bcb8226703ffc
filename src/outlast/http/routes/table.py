"""All routes: the one place that says what there is. Layer: http.

What always holds: what is not in here cannot be reached, and what is in here is in the OpenAPI document.
"""

from __future__ import annotations

from outlast import errors
from outlast.http.access import ADMIN, AUTHOR, METRICS
from outlast.http.refusals import MethodNotAllowed, NotAllowed, NotSignedIn
from outlast.http.route import Errors, Route
from outlast.http.routes import answering, definitions, following, runs, session, starting, steering, surroundings

__all__ = ["API", "ROUTES", "RUN"]

API = "/api/v1"
RUN = f"{API}/runs/{{id}}"
WORKFLOW = f"{API}/workflows/{{name}}"
WORKER = f"{API}/workers/{{id}}"
VERSION = f"{WORKFLOW}/versions/{{version}}"

_FOUND: Errors = (errors.RunNotFound, errors.InvalidName, errors.InvalidSetting)
_START: Errors = (
    errors.FunctionNotFound,
    errors.InvalidDefinition,
    errors.InvalidInput,
    errors.InvalidName,
    errors.InvalidSetting,
    errors.InvalidDuration,
    errors.NotEncodable,
    errors.KeyNotFound,
    errors.PayloadDamaged,
    errors.ValueTooLarge,
    errors.RunExists,
    errors.RunConflict,
    errors.RunNotFound,
    errors.StoreFull,
    errors.VersionNotActive,
    NotAllowed,
)
_FORK: Errors = (
    *_FOUND,
    errors.RunExists,
    errors.RunConflict,
    errors.NotEncodable,
    errors.KeyNotFound,
    errors.PayloadDamaged,
    errors.ValueTooLarge,
    errors.StoreFull,
)
_SENT: Errors = (*_FOUND, errors.InboxFull, errors.StoreFull)
_VALUE: Errors = (errors.NotEncodable, errors.ValueTooLarge)
_DECIDE: Errors = (
    *_SENT,
    *_VALUE,
    errors.InvalidDuration,
    errors.KeyNotFound,
    errors.PayloadDamaged,
    errors.ApprovalForbidden,
    errors.ApprovalInvalid,
    errors.ApprovalResolved,
    NotAllowed,
)
_WORKFLOW: Errors = (
    errors.FunctionNotFound,
    errors.InvalidName,
    errors.InvalidDefinition,
    errors.KeyNotFound,
    errors.PayloadDamaged,
)
_VERSIONS: Errors = (errors.InvalidName, errors.InvalidSetting)
_DRAFT: Errors = (
    errors.InvalidDefinition,
    errors.InvalidName,
    errors.NotEncodable,
    errors.ValueTooLarge,
    errors.StoreFull,
    NotAllowed,
)
_DECIDE_VERSION: Errors = (errors.FunctionNotFound, errors.InvalidName, errors.StoreFull, NotAllowed)

_WORKER: Errors = (errors.WorkerNotFound, errors.InvalidName)

ROUTES: tuple[Route, ...] = (
    Route("POST", f"{API}/runs", starting.start_run, _START, statuses=(201, 200, 202)),
    Route("GET", f"{API}/runs", runs.list_runs, (errors.InvalidSetting, errors.InvalidName, NotAllowed)),
    Route("GET", RUN, runs.get_run, _FOUND),
    Route("GET", f"{RUN}/result", runs.get_result, (*_FOUND, errors.InvalidDuration), statuses=(200, 202)),
    Route("GET", f"{RUN}/history", runs.list_attempts, _FOUND),
    Route("GET", f"{RUN}/timeline", runs.list_timeline, _FOUND),
    Route("GET", f"{RUN}/state", runs.get_state, _FOUND),
    Route("GET", f"{RUN}/events", following.follow_run, _FOUND, statuses=(200, 204)),
    Route("POST", f"{RUN}/cancel", steering.cancel_run, _SENT),
    Route("POST", f"{RUN}/resume", steering.resume_run, (*_SENT, errors.WaitNotFound, errors.RunEnded)),
    Route("POST", f"{RUN}/signal", answering.send_signal, (*_SENT, *_VALUE, errors.RunEnded)),
    Route("POST", f"{RUN}/approve", answering.decide_approval, _DECIDE, statuses=(200, 202)),
    Route("POST", f"{RUN}/retry", steering.retry_run, (*_FOUND, errors.RunNotFailed, errors.StoreFull)),
    Route("POST", f"{RUN}/fork", steering.fork_run, _FORK, statuses=(201,)),
    Route("DELETE", RUN, steering.delete_run, (*_FOUND, errors.RunNotEnded), statuses=(204,)),
    Route("GET", f"{API}/waits", answering.list_waits, (errors.InvalidSetting, errors.InvalidName), tag="waits"),
    Route("GET", f"{API}/changes", following.follow_changes, tag="server"),
    Route("GET", f"{API}/workflows", definitions.list_workflows, tag="workflows"),
    Route("GET", WORKFLOW, definitions.get_workflow, _WORKFLOW, tag="workflows"),
    Route("GET", f"{WORKFLOW}/versions", definitions.list_versions, _VERSIONS, tag="workflows"),
    Route("GET", VERSION, definitions.get_version, (errors.FunctionNotFound, errors.InvalidName), tag="workflows"),
    Route("GET", f"{API}/versions", definitions.list_all_versions, _VERSIONS, tag="workflows"),
    Route(
        "POST",
        f"{API}/versions",
        definitions.draft_version,
        _DRAFT,
        statuses=(201,),
        scopes=(AUTHOR, ADMIN),
        tag="workflows",
    ),
    Route(
        "POST", f"{VERSION}/activate", definitions.activate_version, _DECIDE_VERSION, scopes=(ADMIN,), tag="workflows"
    ),
    Route("POST", f"{VERSION}/decline", definitions.decline_version, _DECIDE_VERSION, scopes=(ADMIN,), tag="workflows"),
    Route("GET", f"{API}/workers", surroundings.list_workers, scopes=(ADMIN,), tag="server"),
    Route("GET", f"{WORKER}/steps", surroundings.list_held_steps, _WORKER, scopes=(ADMIN,), tag="server"),
    Route(
        "POST",
        f"{WORKER}/drain",
        surroundings.drain_worker,
        (*_WORKER, errors.StoreFull),
        scopes=(ADMIN,),
        tag="server",
    ),
    Route("GET", f"{API}/queues", surroundings.list_queues, scopes=(ADMIN,), tag="server"),
    Route("GET", f"{API}/session", session.get_session, is_open=True, tag="session"),
    Route(
        "POST",
        f"{API}/session",
        session.sign_in,
        (MethodNotAllowed, NotSignedIn),
        statuses=(204,),
        is_open=True,
        tag="session",
    ),
    Route(
        "DELETE", f"{API}/session", session.sign_out, (MethodNotAllowed,), statuses=(204,), is_open=True, tag="session"
    ),
    Route("GET", "/metrics", surroundings.get_metrics, scopes=(METRICS, ADMIN), tag="server"),
    Route("GET", f"{API}/health", surroundings.get_health, is_open=True, asks_who=False, tag="server"),
    Route("GET", f"{API}/ready", surroundings.get_readiness, is_open=True, asks_who=False, tag="server"),
)
