"""Several gateways behind one address: requests for a chat of another one are forwarded to it."""
