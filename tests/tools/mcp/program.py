"""A minimal MCP server: a program that the tests start, with messages on its stdin and stdout. Its first
argument makes it misbehave."""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
import time
from typing import Any

HOW = sys.argv[1] if len(sys.argv) > 1 else "well"
MARK = sys.argv[2] if len(sys.argv) > 2 else "0"
WORD = {"type": "object", "properties": {"word": {"type": "string"}}, "required": ["word"]}


BEGINNING = "BEGINNING "
SUBSCRIPTION = "io.modelcontextprotocol/subscriptionId"
listener: list[Any] = []
"""The id of the request on which a server with the protocol of 2026-07-28 reports changes."""


def offered() -> list[dict[str, Any]]:
    names = [
        "spell",
        "look up!",
        "fail",
        "hang",
        "die",
        "environment",
        "picture",
        "grow",
        "long",
        "big",
        "flood",
    ]
    tools = [{"name": name, "description": f"Does {name}.", "inputSchema": WORD} for name in names]
    tools[0]["annotations"] = {"readOnlyHint": True}
    if os.path.exists(MARK + ".grown"):
        tools.append({"name": "grown", "inputSchema": WORD})
    return tools


def say(**message: Any) -> None:
    print(json.dumps({"jsonrpc": "2.0", **message}), flush=True)


def text(*texts: str) -> dict[str, Any]:
    return {"content": [{"type": "text", "text": one} for one in texts]}


def called(name: str, word: str) -> dict[str, Any] | None:
    if name == "hang":
        subprocess.Popen(["sleep", os.path.basename(MARK)])
        return None
    if name == "die":
        sys.exit(3)
    if name == "grow":
        open(MARK + ".grown", "w").close()
        if HOW != "modern":
            say(method="notifications/tools/list_changed")
        elif listener:
            say(method="notifications/tools/list_changed", params={"_meta": {SUBSCRIPTION: listener[0]}})
    if name == "environment":
        return text(json.dumps({**os.environ, "cwd": os.getcwd()}))
    if name == "picture":
        return {"content": [{"type": "image", "data": "AAAA", "mimeType": "image/png"}]}
    if name == "long":
        return text("x" * (17 << 20))
    if name == "big":  # with secrets at the beginning, around both cuts, and at the end
        return text(BEGINNING + word * ((8 << 20) // len(word)) + "END")
    if name == "flood":  # after the answer, which would otherwise wait behind the flood
        subprocess.Popen(["sh", "-c", "sleep 0.5; exec yes 'no message at all'"], stdin=subprocess.DEVNULL)
    return {**text("-".join(word)), "isError": name == "fail"}


def answer(message: dict[str, Any]) -> dict[str, Any] | None:
    match message["method"]:
        case "initialize":
            if HOW == "mute":
                return None
            version = message["params"]["protocolVersion"]
            info = {"name": "small", "version": "1"}
            return {"protocolVersion": version, "capabilities": {"tools": {}}, "serverInfo": info}
        case "tools/list":
            return {"tools": offered()}
        case "tools/call":
            return called(message["params"]["name"], message["params"].get("arguments", {}).get("word", ""))
    return {}


def discovered() -> dict[str, Any]:
    capabilities = {"tools": {"listChanged": True}}
    kept = {"resultType": "complete", "ttlMs": 0, "cacheScope": "private"}
    info = {"io.modelcontextprotocol/serverInfo": {"name": "small", "version": "1"}}
    return {"supportedVersions": ["2026-07-28"], "capabilities": capabilities, **kept, "_meta": info}


def noise(dice: random.Random, id_: object) -> bytes:
    """Return some random lines."""
    whole = json.dumps({"jsonrpc": "2.0", "id": id_, "result": text("wrong")}).encode()
    kinds: list[bytes] = [
        b"",
        b"   ",
        b"Loading the library ...",
        b"y",
        b"\0" * dice.randrange(1, 50),
        bytes(dice.randrange(256) for _ in range(dice.randrange(1, 80))).replace(b"\n", b""),
        b'{"jsonrpc": "2.0", "id": 1, "result": "\xff\xfe"}',
        b"x" * dice.randrange(1, 300_000),
        b'{"a": "' + b"x" * dice.randrange(1, 300_000) + b'"}',
        whole[: dice.randrange(1, len(whole) - 1)],
        b"[" * dice.randrange(1, 2_000),
        b"null",
        b"[]",
        b"{}",
        b'{"jsonrpc": "1.0", "id": 1, "result": {}}',
        b'{"jsonrpc": "2.0", "id": "a", "result": {}}',
        b'{"jsonrpc": "2.0", "id": null, "error": {"code": -32700, "message": "parse"}}',
        b'{"jsonrpc": "2.0", "id": 99999, "result": {"content": []}}',
        b'{"jsonrpc": "2.0", "id": -1, "error": {"code": "x"}}',
        b'{"jsonrpc": "2.0", "method": "notifications/progress", "params": {"progress": "x"}}',
        b'{"jsonrpc": "2.0", "method": "no/such/thing"}',
        b'{"jsonrpc": "2.0", "id": 7, "method": "no/such/request", "params": []}',
        b'{"jsonrpc": "2.0", "method": "notifications/tools/list_changed", "params": {"_meta": 5}}',
    ]
    return b"".join(dice.choice(kinds) + b"\n" for _ in range(dice.randrange(12)))


def put(data: bytes, dice: random.Random) -> None:
    """Write these bytes in two parts."""
    at = dice.randrange(len(data) + 1)
    for part in (data[:at], data[at:]):
        sys.stdout.buffer.write(part)
        sys.stdout.buffer.flush()


def fuzz(message: dict[str, Any], dice: random.Random) -> None:
    """Answer a request among noise; sometimes wrongly, twice, or not at all."""
    put(noise(dice, message["id"]), dice)
    result = answer(message)
    if message["method"] == "tools/call" and dice.random() < 0.3:
        wrong: list[dict[str, Any]] = [{}, {"content": 5}, {"content": [{"type": "nothing"}]}]
        result = dice.choice(wrong)
    line = json.dumps({"jsonrpc": "2.0", "id": message["id"], "result": result}).encode() + b"\n"
    put(line * dice.choice([1, 1, 2]), dice)
    put(noise(dice, message["id"]), dice)


if HOW == "yes":
    while True:
        sys.stdout.write("no message at all\n" * 1000)
dice = random.Random(HOW)  # noqa: S311 - seeded, so that a run can be repeated
if HOW == "dies":
    sys.exit("I cannot find my library.")
if HOW == "chatty":
    print("Welcome! I write to my output what belongs into a log.", flush=True)
if HOW == "stays":
    import signal

    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    subprocess.Popen(["sleep", os.path.basename(MARK)])
for line in sys.stdin:
    message = json.loads(line)
    if message.get("method") == "notifications/cancelled":
        open(MARK + ".cancelled", "w").close()
    if "id" not in message or "method" not in message:
        continue
    if message["method"] == "server/discover" and HOW == "modern":
        say(id=message["id"], result=discovered())
    elif message["method"] == "subscriptions/listen":
        listener[:] = [message["id"]]
        heard = {"_meta": {SUBSCRIPTION: message["id"]}, "notifications": {"toolsListChanged": True}}
        say(method="notifications/subscriptions/acknowledged", params=heard)
    elif message["method"] == "server/discover":
        say(id=message["id"], error={"code": -32601, "message": "no such method"})
    elif HOW.startswith("fuzz"):
        fuzz(message, dice)
    elif (result := answer(message)) is not None:
        if HOW == "modern":
            result |= {"resultType": "complete", "ttlMs": 0, "cacheScope": "private"}
        say(id=message["id"], result=result)
if HOW == "stays":
    time.sleep(float(MARK))
