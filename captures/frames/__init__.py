"""The frames of a capture as columns, and what those are that belong to nobody."""
