"""Operations on sessions and runs for callers outside of the chats, such as the web. They know no HTTP."""
