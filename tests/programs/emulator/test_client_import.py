"""Importing the emulator's client in a new interpreter."""

from __future__ import annotations

import subprocess
import sys


def test_importing_the_client_leaves_the_standard_librarys_reader_as_it_is() -> None:
    code = """
import xmlrpc.client, xmlrpc.server
before = [dict(vars(module)) for module in (xmlrpc.client, xmlrpc.server)]
import owlt.emulator.service.client
assert [dict(vars(module)) for module in (xmlrpc.client, xmlrpc.server)] == before
"""
    subprocess.run([sys.executable, "-c", code], check=True)
