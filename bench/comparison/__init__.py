"""Gateways beside others that people run, seen from outside.

| module | |
|---|---|
| `drain`, `crash`, `cancel` | how they end: asked to, killed, and one turn of theirs |
| `traffic`, `memory` | what a turn and a session cost |
| `stop`, `clients`, `conditions` | one stop; people who talk; what is wrong around it |
| `rounds`, `results` | programs in turn; lines of JSON |
| `report`, `goals`, `drawings`, `plots` | one page of a run |
"""
