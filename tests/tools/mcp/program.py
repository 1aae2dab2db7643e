"""A server of tools, as small as one can be: a program that the tests start, with messages on its stdin and
stdout. What it is told by its arguments makes it a bad one."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from typing import Any

HOW = sys.argv[1] if len(sys.argv) > 1 else "well"
MARK = sys.argv[2] if len(sys.argv) > 2 else "0"
WORD = {"type": "object", "properties": {"word": {"type": "string"}}, "required": ["word"]}


def offered() -> list[dict[str, Any]]:
    names = ["spell", "look up!", "fail", "hang", "die", "environment", "picture", "grow", "long"]
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
        say(method="notifications/tools/list_changed")
    if name == "environment":
        return text(json.dumps(dict(os.environ)))
    if name == "picture":
        return {"content": [{"type": "image", "data": "AAAA", "mimeType": "image/png"}]}
    if name == "long":
        return text("x" * (17 << 20))
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
    if message["method"] == "server/discover":
        say(id=message["id"], error={"code": -32601, "message": "no such method"})
    elif (result := answer(message)) is not None:
        say(id=message["id"], result=result)
if HOW == "stays":
    time.sleep(float(MARK))
