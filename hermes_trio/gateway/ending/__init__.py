"""How the gateway ends: the decision, its consequences, its deadlines, its report."""
