"""An implementation whose program no machine has, as a user's file."""

MISSING = """\
name: mine
title: Mine
protocol: LTP
description: A program that no machine has.
binary:
  mine: {search: [no-such-program-of-mine], fix: bring your own}
starts_first: receiver
sender: {command: ["{mine}"]}
receiver: {command: ["{mine}"]}
session: {udp_ports: ["5000"]}
done: both_exit
time_limit: {rtts: 1, file_times: 1, extra_s: 10}
version_command: ["{mine}"]
"""
