"""Who answers. For now the demo; the loop, the providers and the tools come here."""
