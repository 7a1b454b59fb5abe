"""Bridges to other tools; each imports its host, and headscope's core, only when it is used."""
