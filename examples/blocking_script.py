"""A blocking script with a blocking agent: no event loop is to be seen. Give it a directory."""

import sys
import time

import hermes_trio


@hermes_trio.blocking_agent
def count(turn: hermes_trio.BlockingTurn) -> None:
    """Count slowly."""
    for number in range(1, 1000):
        turn.say(f"{number} ")
        time.sleep(0.1)


with hermes_trio.blocking.open_gateway(sys.argv[1], agent=count) as gateway, gateway.run("count") as run:
    for event in run:
        if isinstance(event, hermes_trio.MessageDelta):
            print(event.delta, flush=True)
