"""The explorer: a local page on which a person tries a model instead of only looking at it. `wherefrom serve` opens it.

The page gets plain data only. `serve` starts the server, `app` and `routes` have its addresses, `guard` decides who may
ask, `service` runs a model for several people at once, `sheet` turns results into what the page shows.
"""
