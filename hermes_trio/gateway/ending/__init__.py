"""The ending of the gateway: what requests it, the decision, its consequences, its deadlines, its report."""
