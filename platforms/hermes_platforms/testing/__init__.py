"""Parts of the simulators of platforms that speak HTTP.

http_requests   requests and answers
http_server     a stage that listens on a port of this machine, and its failures
"""

from .http_requests import BadRequest as BadRequest
from .http_requests import HttpRequest as HttpRequest
from .http_requests import RequestReader as RequestReader
from .http_requests import UploadedFile as UploadedFile
from .http_requests import response as response
from .http_server import HttpStage as HttpStage
from .http_server import HungUp as HungUp

__all__ = [
    "BadRequest",
    "HttpRequest",
    "HttpStage",
    "HungUp",
    "RequestReader",
    "UploadedFile",
    "response",
]
