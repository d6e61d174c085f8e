"""The frames of a capture as numpy columns, which of them are the session's, and the classes of the other ones.

Capture files belong to `captures.files`, and finding the same packet in two captures to `captures.matches`.
"""
