"""hermes_trio.platform"""
