"""Several gateways that share one store: the lease under which each of them works, and taking over."""
