"""The platforms that come with hermes-trio, one module or small package each.

A platform is found through the entry point group `hermes_trio.platforms`, and imports only public names of
`hermes_trio`, like the package of any other adapter.
"""
