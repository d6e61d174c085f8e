"""The frames of a capture as numpy columns, their hashes and checksums, and the classes of background frames.

Which frames belong to a run is decided in `captures.session`: such rules belong there.
"""
