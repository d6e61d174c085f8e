// SPDX-License-Identifier: MIT OR GPL-2.0-only
/*
 * Aimed faults, at the way out of an interface (clsact egress) before errors and delay. A filter for each class of
 * packets comes first, which notes the class in the packet's mark (aims in emulator/kernel).
 * `aims` counts the packets of each rule's class, and gives those that a rule hits to the emulator, through a tap,
 * with a header that says which rule and which occurrence it was. What becomes of a packet is decided there. A packet
 * that the emulator sends has the mark INJECTED and passes.
 */
#include <linux/bpf.h>
#include <linux/pkt_cls.h>

#include <bpf/bpf_helpers.h>

#define MOST_RULES 64
#define INJECTED 0x80000000u
#define CLASSES 0xffffu
/* Hits occurrences first, first + step, ... up to last, each with the probability share / 2^53. */
struct rule {
    __u32 class; /* its bit */
    __u32 id;
    __u64 first;
    __u64 last;
    __u64 step;
    __u64 share;
    __u64 seen;
    __u64 hits;
};

struct process {
    struct bpf_spin_lock lock;
    __u32 tap;
    __u64 generator;
    struct rule rules[MOST_RULES];
};

struct header {
    __u64 id;
    __u64 occurrence;
    __u64 at_ns;
};

struct counters {
    __u64 packets;
    __u64 hit_packets;
    __u64 failed_packets;
};

struct {
    __uint(type, BPF_MAP_TYPE_ARRAY);
    __uint(max_entries, 1);
    __type(key, __u32);
    __type(value, struct process);
} processes SEC(".maps");

struct times {
    __u64 from_ns[MOST_RULES]; /* CLOCK_MONOTONIC; the largest value: not yet */
    __u64 until_ns[MOST_RULES];
};

struct {
    __uint(type, BPF_MAP_TYPE_ARRAY);
    __uint(max_entries, 1);
    __type(key, __u32);
    __type(value, struct times);
} times SEC(".maps");

struct {
    __uint(type, BPF_MAP_TYPE_ARRAY);
    __uint(max_entries, 1);
    __type(key, __u32);
    __type(value, struct counters);
} counters SEC(".maps");

/* splitmix64, as in errors.bpf.c */
static __always_inline __u64 draw(struct process *process)
{
    __u64 x = process->generator += 0x9e3779b97f4a7c15ULL;

    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ULL;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebULL;
    return x ^ (x >> 31);
}

/* Count the packet for every rule of its classes, and find the first rule that it hits. */
static __always_inline int hit(struct process *process, const struct times *times, __u32 classes, __u64 now_ns,
                               struct header *header)
{
    int i, found = 0;

    for (i = 0; i < MOST_RULES; i++) {
        struct rule *rule = &process->rules[i];

        if (!rule->class)
            break;
        if (!(rule->class & classes) || now_ns < times->from_ns[i] || now_ns >= times->until_ns[i])
            continue;
        rule->seen++;
        if (found || rule->seen < rule->first || rule->seen > rule->last || (rule->seen - rule->first) % rule->step)
            continue;
        if (draw(process) >> 11 >= rule->share)
            continue;
        rule->hits++;
        header->id = rule->id;
        header->occurrence = rule->seen;
        found = 1;
    }
    return found;
}

SEC("tc")
int aims(struct __sk_buff *skb)
{
    __u32 zero = 0, mark = skb->mark, tap;
    struct process *process = bpf_map_lookup_elem(&processes, &zero);
    struct times *times_of_rules = bpf_map_lookup_elem(&times, &zero);
    struct counters *counts = bpf_map_lookup_elem(&counters, &zero);
    /* without rules the clock is not read, which would take time on a guest's exact clock */
    __u64 now_ns = process && process->rules[0].class ? bpf_ktime_get_ns() : 0;
    struct header header = {.at_ns = now_ns};
    int found;

    skb->mark = 0;
    if (!process || !times_of_rules || !counts || mark & INJECTED)
        return TC_ACT_UNSPEC;
    __sync_fetch_and_add(&counts->packets, 1);
    if (!(mark & CLASSES))
        return TC_ACT_UNSPEC;
    bpf_spin_lock(&process->lock);
    tap = process->tap;
    found = hit(process, times_of_rules, mark & CLASSES, now_ns, &header);
    bpf_spin_unlock(&process->lock);
    if (!found)
        return TC_ACT_UNSPEC;
    __sync_fetch_and_add(&counts->hit_packets, 1);
    if (bpf_skb_change_head(skb, sizeof(header), 0) || bpf_skb_store_bytes(skb, 0, &header, sizeof(header), 0)) {
        __sync_fetch_and_add(&counts->failed_packets, 1);
        return TC_ACT_SHOT;
    }
    return bpf_redirect(tap, 0);
}

char _license[] SEC("license") = "Dual MIT/GPL";
