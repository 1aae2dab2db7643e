"""The schedule by the API: jobs are listed, ordered for a session, paused, resumed, run and removed."""

from __future__ import annotations

from typing import Any

import pytest

from tests.web.conftest import WebStage

ORDER = {"session_id": "s1", "when": "daily 09:00", "text": "What is new?", "zone": "Europe/Berlin"}


async def test_a_job_is_ordered_listed_run_paused_resumed_and_removed(web_stage: WebStage) -> None:
    async with web_stage.served() as (_, http):
        answer = await http.post("/api/schedule", json=ORDER)
        assert answer.status_code == 201, answer.text
        job = answer.json()["job"]
        path = f"/api/schedule/{job['id']}"
        assert (await http.get("/api/schedule")).json()["jobs"] == [job]
        assert (job["when"], job["platform"], job["chat"]) == ("0 9 * * * (Europe/Berlin)", "api", "s1")
        assert (await http.patch(path, json={"action": "run"})).is_success
        await web_stage.until(lambda: bool(web_stage.agent.left))
        messages = (await http.get("/api/sessions/s1/messages")).json()["messages"]
        assert messages[0]["content"].endswith("What is new?")
        assert (await http.patch(path, json={"action": "pause"})).is_success
        [paused] = (await http.get("/api/schedule")).json()["jobs"]
        assert paused["paused"] is True
        assert (await http.patch(path, json={"action": "resume"})).is_success
        assert (await http.delete(path)).is_success
        assert (await http.get("/api/schedule")).json()["jobs"] == []


@pytest.mark.parametrize(
    "change", [{"when": "soon"}, {"zone": "Mars/Olympus"}, {"text": "  "}, {"session_id": "../x"}]
)
async def test_a_job_that_cannot_be_ordered_is_refused(web_stage: WebStage, change: dict[str, Any]) -> None:
    async with web_stage.served() as (_, http):
        answer = await http.post("/api/schedule", json={**ORDER, **change})
        assert answer.status_code == 400, answer.text
        assert (await http.get("/api/schedule")).json()["jobs"] == []
        assert (await http.get("/api/sessions")).json()["sessions"] == []


async def test_an_unknown_job_is_not_there(web_stage: WebStage) -> None:
    async with web_stage.served() as (_, http):
        assert (await http.delete("/api/schedule/none")).status_code == 404
        assert (await http.patch("/api/schedule/none", json={"action": "run"})).status_code == 404
