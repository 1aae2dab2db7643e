"""HTTP: health, the sessions API, live events, and what the page stands on.

Nothing below knows of it: it is a door of the gateway (`gateway.serve`), and a platform called `api` whose
people are let in by the key.
"""
