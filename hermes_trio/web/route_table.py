"""The table of all routes. Every route needs the key or a log-in, unless its line says `is_open`."""

from __future__ import annotations

from typing import Any

from .api.admin_routes import AdminRoutes, EndingRequest, HoldRequest, RestartRequest
from .api.command_routes import CommandRoutes, CommandText
from .api.event_routes import EventRoutes
from .api.file_routes import FileRoutes
from .api.health_routes import HealthRoutes
from .api.login_routes import LoginRoutes
from .api.message_routes import MessageRoutes, NewMessage
from .api.metrics import MetricsRoutes
from .api.schedule_routes import JobChange, NewJob, ScheduleRoutes
from .api.session_routes import NewSession, SessionRoutes, SessionUpdate
from .api.turn_routes import QuestionAnswer, TurnRoutes
from .http.auth import LoginRequest
from .http.openapi import DescriptionRoutes
from .http.route_spec import RouteGroup, RouteSpec
from .openai.completion_request import ChatCompletion
from .openai.completions import CompletionRoutes
from .openai.response_request import NewResponse
from .openai.responses import ResponseRoutes
from .openai.run_routes import ApprovalChoice, NewRun, RunRoutes
from .page.page_files import PageRoutes

SESSION = "/api/sessions/{session_id}"
RUN = "/v1/runs/{run_id}"
RESPONSE = "/v1/responses/resp_{run_id}"

GROUPS: tuple[RouteGroup[Any], ...] = (
    RouteGroup(
        PageRoutes,
        (
            RouteSpec("GET", "/", PageRoutes.page, is_open=True),
            RouteSpec("GET", "/page/{name}", PageRoutes.file, is_open=True),
            RouteSpec("GET", "/login", PageRoutes.log_in_by_link, is_open=True),
        ),
    ),
    RouteGroup(
        LoginRoutes,
        (
            RouteSpec("POST", "/login", LoginRoutes.log_in_by_key, takes=LoginRequest, is_open=True),
            RouteSpec("GET", "/api/logins", LoginRoutes.every),
            RouteSpec("DELETE", "/api/logins/{login_id}", LoginRoutes.end),
        ),
    ),
    RouteGroup(
        HealthRoutes,
        (
            RouteSpec("GET", "/health", HealthRoutes.health, is_open=True),
            RouteSpec("GET", "/ready", HealthRoutes.ready, is_open=True),
            RouteSpec("GET", "/health/detailed", HealthRoutes.detailed),
        ),
    ),
    RouteGroup(MetricsRoutes, (RouteSpec("GET", "/metrics", MetricsRoutes.metrics, is_open=True),)),
    RouteGroup(
        SessionRoutes,
        (
            RouteSpec("GET", "/api/sessions", SessionRoutes.every),
            RouteSpec("POST", "/api/sessions", SessionRoutes.make, takes=NewSession),
            RouteSpec("GET", SESSION, SessionRoutes.one),
            RouteSpec("PATCH", SESSION, SessionRoutes.change, takes=SessionUpdate),
            RouteSpec("DELETE", SESSION, SessionRoutes.delete),
        ),
    ),
    RouteGroup(
        MessageRoutes,
        (
            RouteSpec("GET", f"{SESSION}/messages", MessageRoutes.every, anywhere=True),
            RouteSpec("POST", f"{SESSION}/messages", MessageRoutes.say, takes=NewMessage),
        ),
    ),
    RouteGroup(
        FileRoutes,
        (
            RouteSpec("POST", f"{SESSION}/files", FileRoutes.send),
            RouteSpec("GET", f"{SESSION}/files/{{file}}", FileRoutes.one),
        ),
    ),
    RouteGroup(
        TurnRoutes,
        (
            RouteSpec("POST", f"{SESSION}/stop", TurnRoutes.stop, may_be_gone=True),
            RouteSpec("POST", f"{SESSION}/answers", TurnRoutes.answer, takes=QuestionAnswer),
        ),
    ),
    RouteGroup(
        CommandRoutes,
        (RouteSpec("POST", f"{SESSION}/commands", CommandRoutes.obey, takes=CommandText),),
    ),
    RouteGroup(
        ScheduleRoutes,
        (
            RouteSpec("GET", "/api/schedule", ScheduleRoutes.every),
            RouteSpec("POST", "/api/schedule", ScheduleRoutes.order, takes=NewJob),
            RouteSpec("PATCH", "/api/schedule/{job_id}", ScheduleRoutes.change, takes=JobChange),
            RouteSpec("DELETE", "/api/schedule/{job_id}", ScheduleRoutes.remove),
        ),
    ),
    RouteGroup(EventRoutes, (RouteSpec("GET", "/api/events", EventRoutes.events),)),
    RouteGroup(
        CompletionRoutes,
        (
            RouteSpec("GET", "/v1/models", CompletionRoutes.models),
            RouteSpec("GET", "/v1/models/{model:path}", CompletionRoutes.model),
            RouteSpec("POST", "/v1/chat/completions", CompletionRoutes.complete, takes=ChatCompletion),
        ),
    ),
    RouteGroup(
        ResponseRoutes,
        (
            RouteSpec("POST", "/v1/responses", ResponseRoutes.create, takes=NewResponse),
            RouteSpec("GET", RESPONSE, ResponseRoutes.one),
            RouteSpec("POST", f"{RESPONSE}/cancel", ResponseRoutes.cancel, may_be_gone=True),
        ),
    ),
    RouteGroup(
        RunRoutes,
        (
            RouteSpec("GET", "/v1/capabilities", RunRoutes.capabilities),
            RouteSpec("POST", "/v1/runs", RunRoutes.begin, takes=NewRun),
            RouteSpec("GET", RUN, RunRoutes.one),
            RouteSpec("GET", f"{RUN}/events", RunRoutes.events),
            RouteSpec("POST", f"{RUN}/stop", RunRoutes.stop, may_be_gone=True),
            RouteSpec("POST", f"{RUN}/approval", RunRoutes.approve, takes=ApprovalChoice),
        ),
    ),
    RouteGroup(DescriptionRoutes, (RouteSpec("GET", "/openapi.json", DescriptionRoutes.description),)),
    RouteGroup(
        AdminRoutes,
        (
            RouteSpec("POST", "/api/admin/link", AdminRoutes.link),
            RouteSpec("POST", "/api/admin/stop", AdminRoutes.stop, takes=EndingRequest),
            RouteSpec("POST", "/api/admin/restart", AdminRoutes.restart, takes=RestartRequest),
            RouteSpec("POST", "/api/admin/drain", AdminRoutes.drain, takes=HoldRequest),
        ),
    ),
)

SPECS: tuple[RouteSpec[Any], ...] = tuple(spec for group in GROUPS for spec in group.specs)
