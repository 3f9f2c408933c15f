"""Relevance by rules that wrap torch functions: the rules, the mode that applies them, and double precision beside the
graph.
"""
