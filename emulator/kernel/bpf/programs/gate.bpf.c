// SPDX-License-Identifier: MIT OR GPL-2.0-only
/*
 * Which frames a link takes, at the way into an interface (clsact ingress, direct action), before they are led
 * to the netem that is the link's rate: none that is too long, and none that would wait too long.
 *
 * netem sends a frame of so many bytes (with the overhead) bytes * 10^9 / rate ns after the frame before it, or
 * after now if that is later. `busy_until` repeats this computation: `busy_until` minus now is the queueing time.
 *
 * Of the frames that are taken, IP packets with ECT(0) or ECT(1) are marked CE (RFC 3168): with a probability, or if they
 * find the queue at a threshold. A packet is in the queue as long as the work behind it, the time to send all that came
 * later, is less than the backlog; so the queue can be counted in packets too.
 */
#include <linux/bpf.h>
#include <linux/pkt_cls.h>

#include <bpf/bpf_helpers.h>

#define MOST_COUNTED 16384 /* packets of a queue that is counted in packets; a power of two */
#define MARKS 0x6d61726b73206365ULL /* differs from the seed of the errors, so that these are independent of the marks */

struct admission {
    struct bpf_spin_lock lock; /* of `states` too */
    __u32 overhead_bytes;
    __u64 longest_frame; /* in bytes */
    __u64 queue_ns;
    __u64 rate_bytes_per_s; /* 0: no limit */
    __u64 hold_until_ns; /* CLOCK_MONOTONIC */
    __u64 queue_packets; /* at most MOST_COUNTED, or UNLIMITED; so is `mark_packets` */
    __u64 mark_probability; /* as a double, for whoever reads this back */
    __u64 mark_share; /* of 2^53 */
    __u64 mark_ns; /* of sending in the queue; UNLIMITED: no threshold */
    __u64 mark_packets;
    __u64 seed;
};

struct state {
    __u64 busy_until_ns;
    __u64 is_seeded;
    __u64 seed; /* that `generator` began with */
    __u64 generator;
    __u64 taken_packets;
    __u64 work_ns; /* the time to send all frames that were taken */
    __u64 work_at_end_ns[MOST_COUNTED]; /* `work_ns` up to and including each of the last packets */
};

struct counters {
    __u64 packets;
    __u64 bytes;
    __u64 dropped_queue_packets;
    __u64 dropped_queue_bytes;
    __u64 dropped_mtu_packets;
    __u64 dropped_mtu_bytes;
    __u64 marked_packets;
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

enum verdict { TAKEN, MARKED, TOO_LONG, NO_PLACE };

/* What of a frame says whether it is an ECN-capable IP packet. */
struct head {
    __u8 ethertype[2];
    __u8 ip[2]; /* IPv4: version and length, type of service; IPv6: version and traffic class */
};

#define AT_ETHERTYPE 12
#define AT_IP 14
#define AT_IPV4_CHECKSUM (AT_IP + 10)
#define CE 3

enum capable { NOT_CAPABLE, IPV4, IPV6 };

static __always_inline int is_capable(int codepoint)
{
    return codepoint == 1 || codepoint == 2;
}

static __always_inline enum capable capability(const struct head *head)
{
    if (head->ethertype[0] == 0x08 && head->ethertype[1] == 0x00 && head->ip[0] >> 4 == 4)
        return is_capable(head->ip[1] & CE) ? IPV4 : NOT_CAPABLE;
    if (head->ethertype[0] == 0x86 && head->ethertype[1] == 0xdd && head->ip[0] >> 4 == 6)
        return is_capable(head->ip[1] >> 4 & CE) ? IPV6 : NOT_CAPABLE;
    return NOT_CAPABLE;
}

/* Set CE, and say whether the kernel did it. The checksum of an IPv4 header is updated. */
static __always_inline int mark(struct __sk_buff *skb, const struct head *head, enum capable capable)
{
    __u8 marked = head->ip[1] | (capable == IPV4 ? CE : CE << 4);
    union {
        __u8 bytes[2];
        __u16 word;
    } before = {{head->ip[0], head->ip[1]}}, after = {{head->ip[0], marked}};

    if (capable == IPV6)
        return !bpf_skb_store_bytes(skb, AT_IP + 1, &marked, 1, BPF_F_RECOMPUTE_CSUM);
    if (bpf_l3_csum_replace(skb, AT_IPV4_CHECKSUM, before.word, after.word, 2))
        return 0;
    return !bpf_skb_store_bytes(skb, AT_IP + 1, &marked, 1, 0);
}

/* splitmix64, as in errors.bpf.c */
static __always_inline __u64 draw(struct state *state)
{
    __u64 x = state->generator += 0x9e3779b97f4a7c15ULL;

    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ULL;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebULL;
    return x ^ (x >> 31);
}

/* Whether so many packets wait or are being sent. */
static __always_inline int queued(const struct state *state, __u64 backlog_ns, __u64 packets)
{
    if (packets == UNLIMITED || state->taken_packets < packets)
        return 0;
    return state->work_ns - state->work_at_end_ns[(state->taken_packets - packets) & (MOST_COUNTED - 1)] < backlog_ns;
}

static __always_inline void take(struct state *state, __u64 serialization_ns)
{
    state->work_ns += serialization_ns;
    state->work_at_end_ns[state->taken_packets++ & (MOST_COUNTED - 1)] = state->work_ns;
}

/* Every capable packet draws, whatever the queue is: so the draws of others do not depend on the queue. */
static __always_inline int drawn(const struct admission *admission, struct state *state)
{
    if (!admission->mark_share)
        return 0;
    if (!state->is_seeded || state->seed != admission->seed) {
        state->is_seeded = 1;
        state->seed = admission->seed;
        state->generator = admission->seed ^ MARKS;
    }
    return draw(state) >> 11 < admission->mark_share;
}

static __always_inline enum verdict judge(const struct admission *admission, struct state *state, __u64 bytes,
                                          __u64 now_ns, enum capable capable)
{
    __u64 serialization_ns = 0, sends_from_ns = now_ns, backlog_ns = 0;
    int marked;

    if (bytes > admission->longest_frame)
        return TOO_LONG;
    if (admission->queue_ns == UNLIMITED && admission->queue_packets == UNLIMITED)
        return capable && drawn(admission, state) ? MARKED : TAKEN;
    if (admission->rate_bytes_per_s)
        serialization_ns = (bytes + admission->overhead_bytes) * 1000000000 / admission->rate_bytes_per_s;
    if (admission->hold_until_ns > sends_from_ns)
        sends_from_ns = admission->hold_until_ns;
    if (state->busy_until_ns > sends_from_ns)
        backlog_ns = state->busy_until_ns - sends_from_ns;
    if (admission->queue_ns != UNLIMITED && backlog_ns && backlog_ns + serialization_ns > admission->queue_ns)
        return NO_PLACE;
    if (queued(state, backlog_ns, admission->queue_packets))
        return NO_PLACE;
    marked = capable && drawn(admission, state);
    marked |= capable && (backlog_ns >= admission->mark_ns || queued(state, backlog_ns, admission->mark_packets));
    take(state, serialization_ns);
    state->busy_until_ns = sends_from_ns + backlog_ns + serialization_ns;
    return marked ? MARKED : TAKEN;
}

SEC("tc")
int gate(struct __sk_buff *skb)
{
    __u32 zero = 0;
    __u64 bytes = skb->len, now_ns = bpf_ktime_get_ns();
    struct admission *admission = bpf_map_lookup_elem(&admissions, &zero);
    struct state *state = bpf_map_lookup_elem(&states, &zero);
    struct counters *counts = bpf_map_lookup_elem(&counters, &zero);
    struct head head = {};
    enum capable capable = NOT_CAPABLE;
    enum verdict verdict;

    if (!admission || !state || !counts)
        return TC_ACT_UNSPEC;

    if (!bpf_skb_load_bytes(skb, AT_ETHERTYPE, &head, sizeof(head)))
        capable = capability(&head);

    bpf_spin_lock(&admission->lock);
    verdict = judge(admission, state, bytes, now_ns, capable);
    bpf_spin_unlock(&admission->lock);

    __sync_fetch_and_add(&counts->packets, 1);
    __sync_fetch_and_add(&counts->bytes, bytes);
    if (verdict == MARKED && mark(skb, &head, capable))
        __sync_fetch_and_add(&counts->marked_packets, 1);
    if (verdict == TAKEN || verdict == MARKED)
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
