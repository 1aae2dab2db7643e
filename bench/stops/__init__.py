"""Stops of gateways, seen from outside: `drain` measures them, `report` makes a page of the results."""
