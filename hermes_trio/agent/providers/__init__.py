"""Models behind an address: two ways of speaking, one way of being spoken to.

    choose      which model, and why
    opening     the models of a turn, while it lasts
    retry       asking again, and falling back
    openai, anthropic      requests in the vendors' words; pure, and a thin shell each
    openai_answer, anthropic_answer    their answers; pure
    thinking_aloud      thoughts within an answer; pure
    stream      the shell they share: post, read as it comes, hang up
    sse         events out of bytes
    repair      a conversation as every server takes it
    refusals, errors       what can go wrong, and what to do about it
    http        the one place that builds clients
    endpoint    where, which model, and the secret for it
    model       what the loop says and hears

Only `http` and what stands above it needs httpx: nobody waits for its import who has not asked a model.
"""
