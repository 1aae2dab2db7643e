"""Conversations by requests."""

from __future__ import annotations

from tests.web.conftest import WebStage, hearing


async def test_a_session_is_made_spoken_to_and_read(web_stage: WebStage) -> None:
    async with web_stage.served() as (_, http), hearing(http) as heard:
        made = await http.post("/api/sessions", json={"title": "A talk"})
        assert made.status_code == 201
        session_id = made.json()["id"]
        assert made.json()["key"] == f"agent:main:api:dm:{session_id}"
        said = await http.post(f"/api/sessions/{session_id}/messages", json={"text": "hello"})
        assert said.status_code == 202
        assert said.json()["status"] == "started"
        await heard.until("run.completed")
        assert {data["run_id"] for _, data in heard.frames} == {said.json()["run_id"]}
        read = (await http.get(f"/api/sessions/{session_id}/messages")).json()
        assert [(row["role"], row["content"]) for row in read["messages"]] == [
            ("user", "hello"),
            ("assistant", "You said: hello"),
        ]
        assert {row["run_id"] for row in read["messages"]} == {said.json()["run_id"]}
        assert read["next"] is None
