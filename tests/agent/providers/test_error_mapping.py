"""The mapping of a server's error to ours: class, remedy, and the time of a retry. No secret is in any
text."""

from __future__ import annotations

import json
import logging
import traceback
from datetime import timedelta
from email.utils import format_datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hermes_trio.agent.providers import model_errors
from hermes_trio.agent.providers.endpoint import Endpoint
from hermes_trio.agent.providers.error_mapping import response_error, retry_after, stream_error
from hermes_trio.agent.providers.model_clients import Http
from hermes_trio.agent.providers.open_models import open_model
from hermes_trio.base.errors import ConfigInvalid
from hermes_trio.base.world import World
from hermes_trio.testing.model_replies import Plain, Reply, Wire, refused
from hermes_trio.testing.model_server import ModelServer
from tests.agent.providers.conftest import HELLO, KEY, NOON, OpenModel, answer, bounded

ENDPOINT = Endpoint("openai", "https://kim:hunter22@example.org/v1?key=hidden", "big-model", KEY)


def error(status: int, payload: object, headers: dict[str, str] | None = None) -> model_errors.ModelError:
    body = payload if isinstance(payload, str) else json.dumps(payload)
    return response_error(ENDPOINT, status, headers or {}, body.encode(), NOON)


def said(message: str, kind: str = "invalid_request_error", **more: Any) -> dict[str, Any]:
    return {"error": {"message": message, "type": kind, **more}}


CASES: list[tuple[int, object, type[model_errors.ModelError]]] = [
    (401, said("Incorrect API key provided: sk-abc."), model_errors.KeyRefused),
    (
        401,
        {"type": "error", "error": {"type": "authentication_error", "message": "invalid x-api-key"}},
        model_errors.KeyRefused,
    ),
    (403, said("Your key may not do this", "permission_error"), model_errors.KeyRefused),
    (402, said("Insufficient credits. Add more."), model_errors.NoCredit),
    (402, said("Temporary limit reached, try again later"), model_errors.RateLimited),
    (429, said("You exceeded your current quota.", "insufficient_quota"), model_errors.NoCredit),
    (400, said("Your credit balance is too low to access the API."), model_errors.NoCredit),
    (404, said("The model `big-model` does not exist", code="model_not_found"), model_errors.ModelUnknown),
    (
        404,
        {"error": {"message": 'model "llama9" not found, try pulling it first'}},
        model_errors.ModelUnknown,
    ),
    (404, "404 page not found", model_errors.ModelUnknown),
    (400, said("big-model is not a valid model ID"), model_errors.ModelUnknown),
    (
        400,
        said("This model's maximum context length is 8192 tokens. However, you sent 9000"),
        model_errors.ContextTooLong,
    ),
    (400, said("prompt is too long: 208310 tokens > 200000 maximum"), model_errors.ContextTooLong),
    (
        400,
        said("It has 4476 tokens.", "exceed_context_size_error", code=400, n_ctx=4096),
        model_errors.ContextTooLong,
    ),
    (
        500,
        said("the request exceeds the available context size", "server_error", code=500),
        model_errors.ContextTooLong,
    ),
    (413, "Payload Too Large", model_errors.ContextTooLong),
    (429, said("Rate limit reached", "rate_limit_error"), model_errors.RateLimited),
    (429, said("This request would exceed the context window tokens per minute"), model_errors.RateLimited),
    (
        529,
        {"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}},
        model_errors.Overloaded,
    ),
    (503, "", model_errors.Overloaded),
    (500, "<html><body>Internal error</body></html>", model_errors.ServerTrouble),
    (502, "", model_errors.ServerTrouble),
    (504, said("timeout", "timeout_error"), model_errors.ServerTrouble),
    (408, "", model_errors.ServerTrouble),
    (
        400,
        said("Rejected by our safety system", code="content_policy_violation"),
        model_errors.ContentRefused,
    ),
    (403, said("Input was flagged by moderation"), model_errors.ContentRefused),
    (400, said("tools.0.name: bad"), model_errors.RequestRefused),
    (400, said("For this model, `effort` is not supported"), model_errors.RequestRefused),
    (400, said("'max_tokens' is not supported with this model. Use another."), model_errors.RequestRefused),
    (422, {"detail": [{"loc": ["body"], "msg": "extra"}]}, model_errors.RequestRefused),
    (
        400,
        [{"error": {"code": 400, "message": "Invalid value", "status": "INVALID_ARGUMENT"}}],
        model_errors.RequestRefused,
    ),
    (301, "", model_errors.NotAModelServer),
]


@pytest.mark.parametrize(("status", "payload", "kind"), CASES)
def test_each_refusal_becomes_its_own_error(
    status: int, payload: object, kind: type[model_errors.ModelError]
) -> None:
    made = error(status, payload)
    assert type(made) is kind
    assert made.remedy in str(made)
    assert "{" not in made.remedy
    assert "<html" not in str(made)


def test_only_temporary_refusals_are_retried() -> None:
    kinds = {type(made): made.may_retry for made in (error(status, payload) for status, payload, _ in CASES)}
    assert {kind for kind, may_retry in kinds.items() if may_retry} == {
        model_errors.RateLimited,
        model_errors.Overloaded,
        model_errors.ServerTrouble,
    }


def test_a_conversation_that_is_too_long_allows_no_fallback() -> None:
    assert not error(413, "").may_fall_back
    assert error(401, "").may_fall_back


def test_the_context_length_is_read_from_the_text_of_a_refusal() -> None:
    made = [error(status, payload) for status, payload, kind in CASES if kind is model_errors.ContextTooLong]
    limits = [one.limit for one in made if isinstance(one, model_errors.ContextTooLong)]
    assert limits == [8192, 200_000, 4096, None, None]


DATE = format_datetime(NOON + timedelta(seconds=90))
AFTER = [
    ({"retry-after": "7"}, 7.0),
    ({"retry-after": "0.5"}, 0.5),
    ({"retry-after": DATE}, 90.0),
    ({"retry-after": DATE.replace("+0000", "GMT")}, 90.0),
    ({"retry-after-ms": "250", "retry-after": "9"}, 0.25),
    ({"retry-after": format_datetime(NOON - timedelta(hours=1))}, 0.0),
    ({"retry-after": "soon"}, None),
    ({"retry-after": "-5"}, None),
    ({"retry-after": ""}, None),
    ({"retry-after": "inf"}, None),
    ({"retry-after": "nan"}, None),
    ({"retry-after": "9" * 400}, None),
    ({}, None),
]


@pytest.mark.parametrize(("headers", "seconds"), AFTER)
def test_the_retry_after_header_is_read(headers: dict[str, str], seconds: float | None) -> None:
    assert retry_after(headers, NOON) == seconds
    assert error(429, "", headers).after == seconds


@pytest.mark.parametrize(
    ("message", "seconds"),
    [("Please try again in 1.5s.", 1.5), ("try again in 250ms", 0.25), ("later", None)],
)
def test_the_wait_is_read_from_the_text_of_a_refusal(message: str, seconds: float | None) -> None:
    assert error(429, said(message)).after == seconds


def test_the_retry_delay_of_google_is_read() -> None:
    details = [{"@type": "RetryInfo", "retryDelay": "34s"}]
    assert error(429, [{"error": {"code": 429, "message": "Quota", "details": details}}]).after == 34


@bounded
@given(
    st.integers(300, 599),
    st.binary(max_size=200),
    st.dictionaries(st.sampled_from(["retry-after"]), st.text()),
)
def test_any_refusal_becomes_a_model_error(status: int, body: bytes, headers: dict[str, str]) -> None:
    assert isinstance(response_error(ENDPOINT, status, headers, body, NOON), model_errors.ModelError)


@pytest.mark.parametrize(
    "message", [{"error": None}, {"error": ""}, {"choices": []}, [], None, "error", {"type": "ping"}]
)
def test_a_message_without_an_error_is_no_error(message: object) -> None:
    assert stream_error(ENDPOINT, message) is None


LEAKS = [KEY, KEY[:12] + "****" + KEY[-6:], "Bearer " + "x" * 30, "kim:hunter22", "hunter22", "hidden"]


@pytest.mark.parametrize("leak", LEAKS)
@pytest.mark.parametrize("status", [400, 401, 404, 429, 500])
def test_a_secret_that_a_server_repeats_is_not_passed_on(leak: str, status: int) -> None:
    made = error(status, said(f"Wrong: {leak} is not it"))
    for text in (str(made), repr(made), made.said, repr(made.endpoint), repr(model_errors.Interrupted(made))):
        for secret in (KEY, KEY[:12], KEY[-6:], "x" * 30, "hunter22", "hidden"):
            assert secret not in text


@pytest.mark.parametrize("status", [401, 403])
def test_the_text_that_refuses_a_key_is_not_quoted(status: int) -> None:
    assert error(status, said(f"The key that ends in {KEY[10:]} is wrong")).said == ""


async def test_no_secret_is_in_a_traceback_or_a_log(
    server: ModelServer, wire: Wire, world: World, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    url = f"http://kim:hunter22@127.0.0.1:{server.port}/v1?token=hidden"
    endpoint = Endpoint(wire, url, "m", KEY)
    server.answers(
        Reply().says("Hi."),
        refused(wire, 401, "authentication_error", f"Wrong key {KEY}"),
        refused(wire, 400, "bad", f"What is {KEY}?"),
        Reply().breaks(),
    )
    texts = [repr(endpoint)]
    async with open_model(Http(), [endpoint], world, retries=0) as model:
        await answer(model)
        for _ in range(3):
            with pytest.raises(model_errors.ModelError) as caught:
                await answer(model, HELLO)
            texts.append("".join(traceback.format_exception(caught.value)))
    assert len(server.requests) == 4
    # OpenAI's key is sent in the header that user name and password would use.
    sent = {"openai": f"Bearer {KEY}", "anthropic": "Basic a2ltOmh1bnRlcjIy"}[wire]
    assert server.requests[0].headers["authorization"] == sent
    texts += [record.getMessage() for record in caplog.records] + [
        repr(record.args) for record in caplog.records
    ]
    for secret in (KEY, "hunter22", "hidden"):
        assert not any(secret in text for text in texts)


async def test_a_missing_key_is_named_as_the_problem(server: ModelServer, wire: Wire, world: World) -> None:
    server.answers(refused(wire, 401, "authentication_error", "No key"))
    url = server.openai_url if wire == "openai" else server.anthropic_url
    async with open_model(Http(), [Endpoint(wire, url, "m")], world, retries=0) as model:
        with pytest.raises(model_errors.KeyRefused, match="it wants a key"):
            await answer(model)


async def test_an_endless_refusal_is_not_read_to_the_end(server: ModelServer, models: OpenModel) -> None:
    server.answers(Plain(500, "x" * (1 << 20)))
    async with models() as model:
        with pytest.raises(model_errors.ServerTrouble):
            await answer(model)


@pytest.mark.parametrize(
    "url", ["localhost:1234", "ftp://x/v1", "http://", "http://x:99999/v1", "", "http://[::1/v1"]
)
def test_an_invalid_address_is_refused(url: str) -> None:
    with pytest.raises(ConfigInvalid, match=r"model\.base_url"):
        Endpoint("openai", url, "m")


@pytest.mark.parametrize("key", ["", "a b", "a\n", "schlüssel"])
def test_an_invalid_key_is_refused(key: str) -> None:
    with pytest.raises(ConfigInvalid, match=r"model\.api_key") as caught:
        Endpoint("openai", "http://x/v1", "m", key)
    assert not key or key not in str(caught.value)


@pytest.mark.parametrize(
    ("url", "local"),
    [("http://localhost:1/v1", True), ("http://127.0.0.9/v1", True), ("http://[::1]:1/v1", True),
     ("https://example.org/v1", False), ("http://10.0.0.1/v1", False)],
)  # fmt: skip
def test_an_endpoint_knows_a_server_on_this_machine(url: str, local: bool) -> None:
    assert Endpoint("openai", url, "m").is_local == local
