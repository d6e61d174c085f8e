"""Where a run can happen. Only how the three hosts come to be differs from rig to rig.

`rig` says what a rig is, `namespaces` raises one on the kernel it runs on, `guest` boots a kernel to raise
one in. From the channel's configuration on, no other module asks which rig it is on.
"""
