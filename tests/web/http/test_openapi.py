"""The OpenAPI description: it is complete, and no request that fits it breaks the gateway."""

from __future__ import annotations

import json
from typing import Any

import requests
import schemathesis
import trio
import trio.lowlevel
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from schemathesis import Case
from starlette.applications import Starlette
from starlette.routing import Route

from hermes_trio.gateway.turn.context import TurnContext
from hermes_trio.web.route_table import SPECS
from tests.web.conftest import KEY, WebStage

EXAMPLES = 8
"""Examples for each route. More of them find more, and take longer."""
KNOWN_5XX = {(502, "agent_incomplete"), (503, "gateway_draining")}


async def test_the_description_has_every_route(web_stage: WebStage) -> None:
    async with web_stage.served() as (_, http):
        assert web_stage.web is not None
        described = (await http.get("/openapi.json")).json()
        inner = web_stage.web.opened.application.app
        assert isinstance(inner, Starlette)
        routes = [route for route in inner.routes if isinstance(route, Route)]
        assert len(routes) == len(inner.routes)
        there = {
            (method, route.path.replace(":path", ""))
            for route in routes
            for method in (route.methods or set()) - {"HEAD"}
        }
        told = {(method.upper(), path) for path, methods in described["paths"].items() for method in methods}
        assert told == there
        assert ("POST", "/v1/chat/completions") in told
        for path, methods in described["paths"].items():
            for method, operation in methods.items():
                assert operation["description"].startswith(f"`{method.upper()} "), (method, path)


async def test_the_description_names_open_routes_bodies_and_parameters(web_stage: WebStage) -> None:
    async with web_stage.served() as (_, http):
        assert web_stage.web is not None
        paths = (await http.get("/openapi.json")).json()["paths"]
        for entry in SPECS:
            told = paths[entry.path.replace(":path", "")][entry.method.lower()]
            assert ("security" in told) is entry.is_open
            assert ("requestBody" in told) is (entry.takes is not None)
        named = {one["name"] for one in paths["/api/sessions"]["get"]["parameters"]}
        assert {"limit", "offset"} <= named
        named = {(one["in"], one["name"]) for one in paths["/v1/chat/completions"]["post"]["parameters"]}
        assert named == {("header", "X-Hermes-Session-Id"), ("header", "Idempotency-Key")}


async def agent(turn: TurnContext) -> str:
    """Fail at once, write a part and fail, or answer, by the length of the message."""
    await turn.requesting()
    match len(turn.said[0].text):
        case 1:
            raise RuntimeError("no luck")
        case 2:
            await turn.say("A part.")
            raise RuntimeError("no luck")
    return "Done."


class Attacker:
    """Sends requests that fit the description, from a thread of its own."""

    def __init__(self, base_url: str, description: dict[str, Any], run_id: str) -> None:
        self._base_url, self._run_id = base_url, run_id
        self._schema = schemathesis.openapi.from_dict(description)
        self._http = requests.Session()
        self.seen: dict[str, set[int]] = {}

    def attack_all(self) -> None:
        for found in self._schema.get_all_operations():
            operation: Any = found.ok()  # type: ignore[union-attr]
            if not operation.path.startswith("/api/admin"):
                self._attack(operation)

    def _attack(self, operation: Any) -> None:
        @settings(
            max_examples=EXAMPLES,
            phases=[Phase.explicit, Phase.generate],
            suppress_health_check=list(HealthCheck),
        )
        @given(operation.as_strategy(), st.sampled_from([None, "x", "xx", "Hello."]))
        def attack(case: Case[Any], said: str | None) -> None:
            if said is not None:
                # The attacker also knows a run, and that the last message must have a text.
                if "run_id" in case.path_parameters:
                    case.path_parameters["run_id"] = self._run_id
                if isinstance(case.body, dict) and "messages" in case.body:
                    case.body["messages"] = [{"role": "user", "content": said}]
                if isinstance(case.body, dict) and "input" in case.body:
                    case.body |= {"input": said, "session_id": None, "conversation_history": None}
            self._ask(case)

        attack()

    def _ask(self, case: Case[Any]) -> None:
        asked = case.as_transport_kwargs(base_url=self._base_url)
        asked["headers"] = {**asked.get("headers", {}), "Authorization": f"Bearer {KEY}"}
        with self._http.request(**asked, stream=True, timeout=20, allow_redirects=False) as response:
            self.seen.setdefault(f"{case.method} {case.operation.path}", set()).add(response.status_code)
            if response.status_code >= 400:
                code = json.loads(response.content)["error"]["code"]
                assert response.status_code < 500 or (response.status_code, code) in KNOWN_5XX


async def test_no_request_that_fits_the_description_breaks_the_gateway(web_stage: WebStage) -> None:
    web_stage.agent = agent  # type: ignore[assignment]
    async with web_stage.served() as (gateway, http):
        assert web_stage.web is not None
        described = (await http.get("/openapi.json")).json()
        run = (await http.post("/v1/runs", json={"input": "hello"})).json()
        attacker = Attacker(web_stage.web.address, described, run["run_id"])
        with trio.fail_after(50):
            await trio.to_thread.run_sync(attacker.attack_all)
        seen = attacker.seen
        asked = {f"{one.method} {one.path.replace(':path', '')}" for one in SPECS}
        assert seen.keys() == {one for one in asked if "/api/admin" not in one}
        assert 200 in seen["POST /v1/chat/completions"], "some requests reach the agent"
        assert 202 in seen["POST /v1/runs"]
        assert 200 in seen["GET /v1/runs/{run_id}/events"]
        failed = await http.post(
            "/v1/chat/completions", json={"messages": [{"role": "user", "content": "x"}]}
        )
        assert (failed.status_code, failed.json()["error"]["code"]) == (502, "agent_incomplete")
        gateway.control.hold(True)
        refused = await http.post("/v1/runs", json={"input": "hello"})
        assert (refused.status_code, refused.json()["error"]["code"]) == (503, "gateway_draining")
        assert (await http.get("/health")).status_code == 200
        assert trio.lowlevel.current_statistics().tasks_living > 0
