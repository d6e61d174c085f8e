// SPDX-License-Identifier: MIT OR GPL-2.0-only
/*
 * Which frames a link takes, at the way into an interface (clsact ingress, direct action), before they are led
 * to the netem that is the link's rate: none that is too long, and none that would wait too long.
 *
 * netem sends a frame of so many bytes (with the overhead) bytes * 10^9 / rate ns after the frame before it, or
 * after now if that is later. The same sum is kept here, in `busy_until`: what it is ahead of now is the queue.
 */
#include <linux/bpf.h>
#include <linux/pkt_cls.h>

#include <bpf/bpf_helpers.h>

struct admission {
    struct bpf_spin_lock lock; /* of `states` too */
    __u32 overhead_bytes;
    __u64 longest_frame; /* in bytes */
    __u64 queue_ns;
    __u64 rate_bytes_per_s; /* 0: no limit */
    __u64 hold_until_ns; /* CLOCK_MONOTONIC */
};

struct state {
    __u64 busy_until_ns;
};

struct counters {
    __u64 packets;
    __u64 bytes;
    __u64 dropped_queue_packets;
    __u64 dropped_queue_bytes;
    __u64 dropped_mtu_packets;
    __u64 dropped_mtu_bytes;
};

struct {
    __uint(type, BPF_MAP_TYPE_ARRAY);
    __uint(max_entries, 1);
    __type(key, __u32);
    __type(value, struct admission);
} admissions SEC(".maps");

struct {
    __uint(type, BPF_MAP_TYPE_ARRAY);
    __uint(max_entries, 1);
    __type(key, __u32);
    __type(value, struct state);
} states SEC(".maps");

struct {
    __uint(type, BPF_MAP_TYPE_ARRAY);
    __uint(max_entries, 1);
    __type(key, __u32);
    __type(value, struct counters);
} counters SEC(".maps");

#define UNLIMITED 0xffffffffffffffffULL

enum verdict { TAKEN, TOO_LONG, NO_PLACE };

static __always_inline enum verdict judge(const struct admission *admission, struct state *state, __u64 bytes,
                                          __u64 now_ns)
{
    __u64 serialization_ns = 0, sends_from_ns = now_ns, backlog_ns = 0;

    if (bytes > admission->longest_frame)
        return TOO_LONG;
    if (admission->queue_ns == UNLIMITED)
        return TAKEN;
    if (admission->rate_bytes_per_s)
        serialization_ns = (bytes + admission->overhead_bytes) * 1000000000 / admission->rate_bytes_per_s;
    if (admission->hold_until_ns > sends_from_ns)
        sends_from_ns = admission->hold_until_ns;
    if (state->busy_until_ns > sends_from_ns)
        backlog_ns = state->busy_until_ns - sends_from_ns;
    if (backlog_ns && backlog_ns + serialization_ns > admission->queue_ns)
        return NO_PLACE;
    state->busy_until_ns = sends_from_ns + backlog_ns + serialization_ns;
    return TAKEN;
}

SEC("tc")
int gate(struct __sk_buff *skb)
{
    __u32 zero = 0;
    __u64 bytes = skb->len, now_ns = bpf_ktime_get_ns();
    struct admission *admission = bpf_map_lookup_elem(&admissions, &zero);
    struct state *state = bpf_map_lookup_elem(&states, &zero);
    struct counters *counts = bpf_map_lookup_elem(&counters, &zero);
    enum verdict verdict;

    if (!admission || !state || !counts)
        return TC_ACT_UNSPEC;

    bpf_spin_lock(&admission->lock);
    verdict = judge(admission, state, bytes, now_ns);
    bpf_spin_unlock(&admission->lock);

    __sync_fetch_and_add(&counts->packets, 1);
    __sync_fetch_and_add(&counts->bytes, bytes);
    if (verdict == TAKEN)
        return TC_ACT_UNSPEC;
    if (verdict == TOO_LONG) {
        __sync_fetch_and_add(&counts->dropped_mtu_packets, 1);
        __sync_fetch_and_add(&counts->dropped_mtu_bytes, bytes);
    } else {
        __sync_fetch_and_add(&counts->dropped_queue_packets, 1);
        __sync_fetch_and_add(&counts->dropped_queue_bytes, bytes);
    }
    return TC_ACT_SHOT;
}

char _license[] SEC("license") = "Dual MIT/GPL";
