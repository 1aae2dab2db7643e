"""The gateway inside another program, on whatever event loop that program runs.

`embedding` finds the loop and opens a gateway there; `guest_run` runs Trio on the loop of asyncio;
`shielded_tree` runs the tree of lifetimes so that a cancellation from outside is an ending.
"""
