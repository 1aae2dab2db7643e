"""Clients of model servers: two wire formats, one interface for the loop.

    choose              the model to use, and the reason
    open_models         the models of a turn
    retry               retries, and the fallback model
    wire                requests and answers in both wire formats; pure, with a thin client each
    stream              the client code that both formats share: post, read the answer, close
    sse                 server-sent events, decoded from bytes
    repair              a conversation in a form that every server accepts
    error_mapping       from a server's refusal to an error
    model_errors        the errors of models, each with a remedy
    model_clients       the only module that builds HTTP clients
    endpoint            address, model name and key
    model               the interface between the loop and a model

Only `model_clients` and the modules above it import httpx, so a program that asks no model does not wait for
that import.
"""
