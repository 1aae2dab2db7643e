"""The errors of models. Each text names the problem and its remedy.

    ModelError                    a GatewayError
    ├─ KeyRefused                 no key, a wrong key, or a key without the permission
    ├─ NoCredit                   the account is empty
    ├─ ModelUnknown               the server has no such model, or the address is that of another server
    ├─ ContextTooLong             the conversation is longer than the model's context: shorten it
    ├─ ContentRefused             refused by the provider's rules, or by the model itself
    ├─ RequestRefused             the server does not accept the request
    ├─ RateLimited                too many requests; often with the time to wait
    ├─ Overloaded                 the server is overloaded
    ├─ ServerTrouble              an internal error of the server
    ├─ CannotConnect              no connection
    ├─ CertificateRefused         the certificate of the server is not trusted
    ├─ NotAModelServer            a server that does not speak the protocol of a model server
    ├─ StreamMalformed            the stream cannot be parsed
    ├─ StreamCut                  the connection ended before the answer
    ├─ StreamStale                no data for longer than a model can think
    ├─ AnswerTooLong              an endless answer
    └─ Interrupted                any of these, after a part of the answer was yielded

`may_retry`: the same request can succeed later. `after`: seconds until then, at least. `may_fall_back`:
another model may succeed. `code` names the error for programs; it is in the last event of the run. No text
contains a secret.
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
    """The key is missing, wrong, or has no permission."""

    code = "model_key_refused"
    problem = "the key was refused"
    remedy = "Check model.api_key, or the variable it comes from; then restart."


class NoCredit(ModelError):
    """The account with the provider is empty."""

    code = "model_no_credit"
    problem = "the account has no credit left"
    remedy = "Top it up with the provider, or choose another model."


class ModelUnknown(ModelError):
    """The server has no model of this name."""

    code = "model_unknown"
    problem = "the server knows no such model"
    remedy = "Check model.name ({model}) and model.base_url ({url}); most addresses end in /v1."


class ContextTooLong(ModelError):
    """The conversation is longer than the model's context."""

    code = "context_length_exceeded"
    may_fall_back = False
    problem = "the conversation is longer than the model can take"
    remedy = "Begin a new one with /new, or raise the context length of the server."

    def __init__(self, endpoint: Endpoint, *, said: str = "", limit: int | None = None) -> None:
        super().__init__(endpoint, said=said)
        self.limit = limit
        """Context length of the model in tokens, if the server named it."""


class ContentRefused(ModelError):
    """The model or its provider refuses to answer this content."""

    code = "content_filter"
    problem = "the model, or its provider, refused to answer this"
    remedy = "Say it in another way, or choose another model."


class RequestRefused(ModelError):
    """The server does not accept the request."""

    code = "model_request_refused"
    problem = "the server does not accept the request"
    remedy = "If this continues, the model may need another provider or base_url."


class RateLimited(ModelError):
    """The server has received too many requests."""

    code = "rate_limit_exceeded"
    may_retry = True
    problem = "too many requests"
    remedy = "Wait a while."


class Overloaded(ModelError):
    """The server is overloaded."""

    code = "model_overloaded"
    may_retry = True
    problem = "the server is overloaded"
    remedy = "Wait a while."


class ServerTrouble(ModelError):
    """The server had an internal error."""

    may_retry = True
    problem = "the server had an internal error"
    remedy = "Try again later; if it is your own server, look into its log."


class CannotConnect(ModelError):
    """No connection to the server was possible."""

    problem = "no connection"

    def __init__(
        self, endpoint: Endpoint, *, said: str = "", refused: bool = False, no_files: bool = False
    ) -> None:
        """`no_files`: this process has reached its limit of open files, and a connection counts as one."""
        # A refused connection on this machine means that no server runs: a retry cannot help.
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
    """The certificate of the server is not trusted."""

    code = "model_certificate_refused"
    problem = "this machine does not trust its certificate"
    remedy = (
        "Check the clock, and whether a proxy intercepts the connection; SSL_CERT_FILE names certificates "
        "to trust."
    )


class NotAModelServer(ModelError):
    """The address is not that of a model server."""

    code = "not_a_model_server"
    problem = "no model server answers at this address"
    remedy = "Check model.base_url ({url}); most addresses end in /v1."


class StreamMalformed(ModelError):
    """The stream of the answer cannot be parsed."""

    may_retry = True
    problem = "its answer cannot be read"
    remedy = "Try again; if this continues, the server does not keep to its protocol."


class StreamCut(ModelError):
    """The connection ended before the answer was complete."""

    may_retry = True
    problem = "the connection ended before the answer did"
    remedy = "Try again."


class StreamStale(ModelError):
    """The server sent no data for a long time."""

    may_retry = True
    remedy = "Try again; a slow server of your own may need a smaller model."

    def __init__(self, endpoint: Endpoint, seconds: float) -> None:
        super().__init__(endpoint, problem=f"no data for {seconds:g} seconds")


class AnswerTooLong(ModelError):
    """The answer exceeded the maximum length, and was ended."""

    code = "answer_too_long"
    remedy = "Ask for less at a time; a model that repeats itself without end may need other settings."

    def __init__(self, endpoint: Endpoint, part: str, characters: int) -> None:
        super().__init__(endpoint, problem=f"{part} grew longer than {characters} characters and was ended")


class Interrupted(ModelError):
    """The answer broke off after a part of it was yielded. The receiver of that part decides what to do."""

    def __init__(self, cause: ModelError) -> None:
        problem = f"the answer broke off: {cause.problem}"
        super().__init__(cause.endpoint, problem=problem, remedy=cause.remedy, said=cause.said)
        self.cause, self.may_retry, self.may_fall_back = cause, cause.may_retry, cause.may_fall_back
        self.after, self.code = cause.after, cause.code
