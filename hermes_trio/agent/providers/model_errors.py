"""What can go wrong between us and a model. Each says what is the matter and what to do about it.

    ModelError                    a GatewayError
    ├─ KeyRefused                 no key, a wrong one, or one that may not do this
    ├─ NoCredit                   the account is empty
    ├─ ModelUnknown               the server knows no such model, or is another server
    ├─ ContextTooLong             the conversation is longer than the model can take: make it shorter
    ├─ ContentRefused             the provider's rules, or the model itself
    ├─ RequestRefused             the server does not understand the request
    ├─ RateLimited                too many requests; often says for how long
    ├─ Overloaded                 the server has too much to do
    ├─ ServerTrouble              the server broke
    ├─ CannotConnect              nobody there
    ├─ CertificateRefused         somebody there, who is not who they should be
    ├─ NotAModelServer            it answers, but not as a model's server does
    ├─ StreamMalformed            its stream makes no sense
    ├─ StreamCut                  the connection ended before the answer did
    ├─ StreamStale                silence for longer than a model can think
    ├─ AnswerTooLong              an answer without an end
    └─ Interrupted                any of these after a part of the answer was handed out

`may_retry` says whether the same request can succeed later, `after` in how many seconds at the earliest,
`may_fall_back` whether another model could do better. `code` names the error for programs; it stands in the
last event of the run. No text has a secret in it.
"""

from __future__ import annotations

from ...base.errors import GatewayError
from .endpoint import Endpoint


class ModelError(GatewayError):
    """A model did not answer."""

    may_retry = False
    may_fall_back = True
    code = "failed"
    problem = "it did not answer"
    remedy = "Try again."

    def __init__(
        self,
        endpoint: Endpoint,
        *,
        problem: str | None = None,
        remedy: str | None = None,
        said: str = "",
        after: float | None = None,
    ) -> None:
        self.endpoint = endpoint
        self.problem = problem or self.problem
        self.remedy = (remedy or self.remedy).format(model=endpoint.model, url=endpoint.shown)
        self.said = endpoint.quoted(said)
        self.after = after
        quote = f" ({self.said})" if self.said else ""
        super().__init__(f"{endpoint.model} at {endpoint.shown}: {self.problem}{quote}. {self.remedy}")


class KeyRefused(ModelError):
    code = "model_key_refused"
    problem = "the key was refused"
    remedy = "Check model.api_key, or the variable it comes from; then restart."


class NoCredit(ModelError):
    code = "model_no_credit"
    problem = "the account has no credit left"
    remedy = "Top it up with the provider, or choose another model."


class ModelUnknown(ModelError):
    code = "model_unknown"
    problem = "the server knows no such model"
    remedy = "Check model.name ({model}) and model.base_url ({url}); most addresses end in /v1."


class ContextTooLong(ModelError):
    code = "context_length_exceeded"
    may_fall_back = False
    problem = "the conversation is longer than the model can take"
    remedy = "Begin a new one with /new, or raise the context length of the server."

    def __init__(self, endpoint: Endpoint, *, said: str = "", limit: int | None = None) -> None:
        super().__init__(endpoint, said=said)
        self.limit = limit
        """Tokens that the model can take, if the server said so."""


class ContentRefused(ModelError):
    code = "content_filter"
    problem = "the model, or its provider, refused to answer this"
    remedy = "Say it in another way, or choose another model."


class RequestRefused(ModelError):
    code = "model_request_refused"
    problem = "the server does not take the request"
    remedy = "If this goes on, the model may need another provider or base_url."


class RateLimited(ModelError):
    code = "rate_limit_exceeded"
    may_retry = True
    problem = "too many requests"
    remedy = "Wait a while."


class Overloaded(ModelError):
    code = "model_overloaded"
    may_retry = True
    problem = "the server has too much to do"
    remedy = "Wait a while."


class ServerTrouble(ModelError):
    may_retry = True
    problem = "something broke in the server"
    remedy = "Try again later; if it is your own server, look into its log."


class CannotConnect(ModelError):
    problem = "no connection"

    def __init__(
        self, endpoint: Endpoint, *, said: str = "", refused: bool = False, no_files: bool = False
    ) -> None:
        """`no_files`: this process may open no more files, and a connection is one."""
        # Where nobody listens on this very machine, waiting changes nothing: somebody has to start it.
        self.may_retry = not (refused and endpoint.is_local)
        if no_files:
            said = "Too many open files"
            remedy = "Let the gateway open more files (`ulimit -n`), or set gateway.max_running_turns."
        elif endpoint.is_local:
            remedy = "Start the server (`ollama serve`, say), or check model.base_url ({url})."
        else:
            remedy = "Check the network, the proxy (HTTPS_PROXY) and model.base_url ({url})."
        super().__init__(endpoint, said=said, remedy=remedy)


class CertificateRefused(ModelError):
    code = "model_certificate_refused"
    problem = "its certificate is not one that this machine trusts"
    remedy = (
        "Check the clock, and whether a proxy looks into the connection; SSL_CERT_FILE names certificates "
        "to trust."
    )


class NotAModelServer(ModelError):
    code = "not_a_model_server"
    problem = "what answers there is no model server"
    remedy = "Check model.base_url ({url}); most addresses end in /v1."


class StreamMalformed(ModelError):
    may_retry = True
    problem = "its answer makes no sense"
    remedy = "Try again; if it goes on, the server does not speak as it should."


class StreamCut(ModelError):
    may_retry = True
    problem = "the connection ended before the answer did"
    remedy = "Try again."


class StreamStale(ModelError):
    may_retry = True
    remedy = "Try again; a slow server of your own may need a smaller model."

    def __init__(self, endpoint: Endpoint, seconds: float) -> None:
        super().__init__(endpoint, problem=f"not a word for {seconds:g} seconds")


class AnswerTooLong(ModelError):
    """The answer was longer than anything a model means to say, and was ended."""

    code = "answer_too_long"
    remedy = "Ask for less at a time; a model that repeats itself without end may need other settings."

    def __init__(self, endpoint: Endpoint, part: str, characters: int) -> None:
        super().__init__(endpoint, problem=f"{part} grew longer than {characters} characters and was ended")


class Interrupted(ModelError):
    """The answer broke off when a part of it had been handed out already: whoever has it decides."""

    def __init__(self, cause: ModelError) -> None:
        problem = f"the answer broke off: {cause.problem}"
        super().__init__(cause.endpoint, problem=problem, remedy=cause.remedy, said=cause.said)
        self.cause, self.may_retry, self.may_fall_back = cause, cause.may_retry, cause.may_fall_back
        self.after, self.code = cause.after, cause.code
