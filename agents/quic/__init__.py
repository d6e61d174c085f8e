"""A QUIC endpoint (RFC 9000) that pushes one file: aioquic is the engine; sockets and exact timers are this project's.

The sender is the client. It sends the file on one bidirectional stream; the receiver answers on the same stream with
the SHA-256 of what it has stored, and the sender then closes the connection.

What all endpoints share belongs to `agents.endpoint`.
"""
