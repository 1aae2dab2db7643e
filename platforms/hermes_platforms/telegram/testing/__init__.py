"""A Bot API server on this machine, for tests of the adapter: Telegram with people that are driven by a test.

open_bot_api        run the server over HTTP while inside
BotApi              its chats, its people and the calls of the adapter
ApiError            an error answer
"""

from .bot_api import BotApi as BotApi
from .bot_api import open_bot_api as open_bot_api
from .bot_api_methods import ApiError as ApiError

__all__ = ["ApiError", "BotApi", "open_bot_api"]
