"""Audits: what a model leans on over a whole data set.

`plan` says which runs an audit rests on, `rows` reads them, one module for each section turns rows into numbers, and
`build` puts these together. The result is `core.audit.Audit`; `core.gate` holds it against rules.
"""
