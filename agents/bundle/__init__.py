"""Bundle Protocol version 6 (RFC 5050) with custody transfer, over LTP green parts or UDP, written for this project.

Custody is signalled bundle by bundle (RFC 5050) or in aggregates (CCSDS 734.2-B-1).

What all endpoints share belongs to `agents.endpoint`.
"""
