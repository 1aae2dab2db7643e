"""The places by which the commands of these tests are judged."""

from __future__ import annotations

from hermes_trio.tools.safety.judge import Places

HERE = Places(user_home="/home/kim", gateway_home="/home/kim/.hermes-trio", cwd="/home/kim/work", pid=4711)
