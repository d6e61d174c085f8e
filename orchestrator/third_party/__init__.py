"""Third-party implementations that a package registry offers: what they are, whether they are installed, installing.

`installable` reads the files of profiles/third-party/ and knows where programs are installed, `installing` finds the
compilers and runs them. Launching an implementation belongs to `agents.contract`.
"""
