"""The gateway inside another program, on whatever event loop that program runs.

`embedding` finds the loop and opens a gateway there, `blocking` does it for programs without a loop, and
`gateway_handle` is what the program gets. `shielded_tree` runs the tree of lifetimes so that a cancellation
from outside is an ending. `guest_run` runs Trio on the loop of asyncio; `asyncio_calls` and `thread_calls`
cross from one loop or thread to the other. `foreign_agents` makes agents of functions that are not Trio's;
`configured_agent` opens the gateway's own agent, `mounted_web` is the page in the program's web
application, and `host_signals` stops the gateway before a web server waits for its streams.
"""
