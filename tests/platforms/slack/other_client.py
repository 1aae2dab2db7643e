"""An app that is written with Slack's own library: `python other_client.py <base url> <app token> <token>`.
It answers each message in Socket Mode, edits the answer, and writes what happens as lines of JSON."""

from __future__ import annotations

import json
import sys
import threading

from slack_sdk.socket_mode import SocketModeClient
from slack_sdk.socket_mode.client import BaseSocketModeClient
from slack_sdk.socket_mode.request import SocketModeRequest
from slack_sdk.socket_mode.response import SocketModeResponse
from slack_sdk.web import WebClient


def write(*values: object) -> None:
    print(json.dumps(values), flush=True)


def main(base_url: str, app_token: str, token: str) -> None:
    web = WebClient(token=token, base_url=f"{base_url}/api/")
    app = WebClient(token=app_token, base_url=f"{base_url}/api/")
    client = SocketModeClient(app_token=app_token, web_client=app)

    def answer(client: BaseSocketModeClient, request: SocketModeRequest) -> None:
        event = request.payload.get("event", {})
        write("heard", request.type, event.get("text"))
        client.send_socket_mode_response(SocketModeResponse(envelope_id=request.envelope_id))
        key = {"event_type": "hermes_trio_message", "event_payload": {"key": "another"}}
        sent = web.chat_postMessage(
            channel=event["channel"], text="...", metadata=key, unfurl_links=False, unfurl_media=False
        )
        web.chat_update(channel=event["channel"], ts=sent["ts"], text=f"You said: {event['text']}")
        page = web.conversations_history(channel=event["channel"], include_all_metadata=True)
        found = page["messages"][0]
        write("found", found["ts"] == sent["ts"], found["metadata"]["event_payload"]["key"])

    client.socket_mode_request_listeners.append(answer)
    write("ready", web.auth_test()["user"])
    client.connect()
    threading.Event().wait()


if __name__ == "__main__":
    main(*sys.argv[1:4])
