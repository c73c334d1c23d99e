"""The studio over HTTP: one model for all who ask, their requests answered together (docs/http.md).

Needs the ``serve`` extra. ``app`` makes the application, ``running`` opens a port for it.
"""
