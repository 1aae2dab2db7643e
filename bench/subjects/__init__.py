"""The programs that are compared: this gateway, others that people run, and the floor.

| module | |
|---|---|
| `subject` | a program that is compared, and one life of it as a process |
| `environments` | an environment of its own for each program, made when it is first needed |
| `ours`, `original`, `nanobot`, `openclaw` | the gateways |
| `floor`, `floor_program` | a bare program that holds requests open and cancels them |

A subject imports nothing of the program that it runs.
"""
