"""A Bot API server on this machine, for tests of the adapter: what Telegram is to it, with people that a test
moves.

    open_bot_api        the server over HTTP, for as long as a block
    BotApi              its chats, people and the calls that it was asked
    ApiError            a refusal that a test lets it answer with
"""

from .bot_api import BotApi as BotApi
from .bot_api import open_bot_api as open_bot_api
from .bot_api_methods import ApiError as ApiError

__all__ = ["ApiError", "BotApi", "open_bot_api"]
