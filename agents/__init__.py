"""What runs on the sender and the receiver: the launch contract and the endpoints that we ship."""
