"""A bot that is written with another library: `python other_client.py <base url> <gateway url> <token>`. It
answers each message, edits the answer, and writes what happens as lines of JSON. It runs in a process of its
own because it needs asyncio."""

from __future__ import annotations

import json
import sys

import discord
import yarl


def write(*values: object) -> None:
    print(json.dumps(values), flush=True)


class Bot(discord.Client):
    async def on_ready(self) -> None:
        assert self.user is not None
        write("ready", self.user.name)

    async def on_resumed(self) -> None:
        write("resumed")

    async def on_message(self, message: discord.Message) -> None:
        write("heard", message.content, str(message.author.id), message.guild is None)
        channel = self.get_partial_messageable(message.channel.id)
        nobody = discord.AllowedMentions.none()
        sent = await channel.send("...", nonce="1", suppress_embeds=True, allowed_mentions=nobody)
        await sent.edit(content=f"You said: {message.content}")
        write("answered")


def main(base_url: str, gateway_url: str, token: str) -> None:
    discord.http.Route.BASE = f"{base_url}/api/v10"
    discord.gateway.DiscordWebSocket.DEFAULT_GATEWAY = yarl.URL(gateway_url)
    Bot(intents=discord.Intents.default()).run(token, log_handler=None)


if __name__ == "__main__":
    main(*sys.argv[1:4])
