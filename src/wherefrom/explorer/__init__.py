"""The explorer: a local page for trying a model. `wherefrom serve` opens it.

The page gets plain data only. `serve` starts the server, `app` and `routes` have its addresses, `guard` decides who may
access it, `service` runs a model for several people at once, `sheet` turns results into what the page shows.
"""
