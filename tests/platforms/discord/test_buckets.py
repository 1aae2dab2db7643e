"""Rate limits of Discord's API: no request is made that would be refused."""

from __future__ import annotations

import pytest

from hermes_platforms.discord.buckets import Buckets, Route, route_of


def headers(remaining: int, reset_after: float, bucket: str = "b") -> dict[str, str]:
    return {
        "x-ratelimit-bucket": bucket,
        "x-ratelimit-remaining": str(remaining),
        "x-ratelimit-reset-after": str(reset_after),
    }


@pytest.mark.parametrize(
    ("method", "path", "route"),
    [
        ("POST", "/channels/1/messages", Route("POST /channels/:id/messages", "1")),
        ("PATCH", "/channels/1/messages/22", Route("PATCH /channels/:id/messages/:id", "1")),
        ("GET", "/users/@me", Route("GET /users/@me")),
        (
            "PUT",
            "/channels/1/messages/2/reactions/%F0%9F%91%80/@me",
            Route("PUT /channels/:id/messages/:id/reactions", "1"),
        ),
    ],
)
def test_a_route_is_counted_for_its_channel_and_not_for_its_message(
    method: str, path: str, route: Route
) -> None:
    assert route_of(method, path) == route


def test_a_bucket_that_is_used_up_holds_its_channel_until_the_reset_and_no_other_one() -> None:
    buckets = Buckets()
    one, other = route_of("POST", "/channels/1/messages"), route_of("POST", "/channels/2/messages")
    buckets.answered(one, headers(1, 5.0), now=100.0)
    assert buckets.wait(one, 100.0) == 0
    buckets.take(one, 100.0)
    assert buckets.wait(one, 101.0) == 4.0
    assert buckets.wait(other, 101.0) == 0
    assert buckets.wait(one, 105.0) == 0


def test_routes_of_one_bucket_share_it() -> None:
    buckets = Buckets()
    send, edit = route_of("POST", "/channels/1/messages"), route_of("PATCH", "/channels/1/messages/2")
    buckets.answered(send, headers(3, 5.0), now=100.0)
    buckets.answered(edit, headers(0, 5.0), now=100.0)
    assert buckets.wait(send, 100.0) == 5.0


def test_a_global_limit_holds_every_route() -> None:
    buckets = Buckets()
    buckets.hold(until=110.0)
    assert buckets.wait(route_of("GET", "/users/@me"), 104.0) == 6.0


@pytest.mark.parametrize(
    "broken", [{}, {"x-ratelimit-bucket": "b"}, headers(1, 1) | {"x-ratelimit-remaining": "x"}]
)
def test_headers_that_say_nothing_change_nothing(broken: dict[str, str]) -> None:
    buckets, route = Buckets(), route_of("POST", "/channels/1/messages")
    buckets.answered(route, broken, now=100.0)
    assert buckets.wait(route, 100.0) == 0
