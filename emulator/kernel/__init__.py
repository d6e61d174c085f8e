"""What the kernel is given for a channel, and what it says that it has."""
