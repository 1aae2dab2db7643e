"""Commands in a container or on another host: they live as long as local ones, and see other files.

| module | |
|---|---|
| `remote_place` | the place that is configured: its name, the way to it, and a look whether it answers |
| `connector_program` | the local process of one command there |
| `supervisor_program`, `supervisor.sh` | the process there that ends everything a command started |

The gateway sees the connector only, a local process like any other. If it ends, in whatever way, the
connection closes, and the supervisor ends everything.
"""
