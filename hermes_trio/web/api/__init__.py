"""Routes of the gateway's own API: health, administration, sessions, events, log-ins and metrics."""
