"""What our endpoints share: arguments, UDP sockets, files, the event loop, pacing, byte ranges, exit codes.

What is specific to a protocol belongs to the package of that protocol beside this one.
"""
