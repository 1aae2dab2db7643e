"""The tool that reads pages of the internet, from public addresses only."""
