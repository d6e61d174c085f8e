// SPDX-License-Identifier: MIT OR GPL-2.0-only
/*
 * Errors in a stream of bits, of packets or of blocks of bytes, at the way out of an interface (clsact egress, direct action).
 *
 * `next` is the unit of the stream that the next error hits. It comes from a sorted table, or it is drawn: the
 * units between two errors are geometric, floor(E / -ln(1 - p)) with E exponential of mean 1. All of the
 * stream's state is under one lock, no helper can be called there, and the verifier walks every round of a
 * loop. So a pass notes up to PASS errors under the lock, applies them after it, and calls the program again
 * for the rest of the frame: 34 passes at most, the kernel's limit of tail calls.
 *
 * Transmit checksum offload has to be off: a checksum filled in after this would cover the error.
 */
#include <linux/bpf.h>
#include <linux/pkt_cls.h>

#include <bpf/bpf_helpers.h>

#define PASS 28 /* times 34 are more errors than any 9014 bytes have at a rate of 0.01 */
#define MOST_POSITIONS 16384 /* a power of two */
#define LOG_BITS 12
#define DE_BRUIJN 0x03f79d71b4cb0a89ULL /* six bits in a row tell where one is in it */
#define UNKNOWN 0xffffffffffffffffULL

enum unit { BIT, PACKET, BLOCK };
enum effect { FLIP, DROP };

struct process {
    struct bpf_spin_lock lock;
    __u32 unit;
    __u32 effect;
    __u32 drawn; /* 1: gaps are drawn; 0: `positions` says where */
    __u64 multiplier; /* 1 / -ln(1 - p) is multiplier * 2^(-6 - shift) */
    __u32 shift;
    __u32 position_count; /* for whoever reads this back, as the rate and the seed */
    __u64 rate; /* p as a double */
    __u64 block_bytes;
    __u64 seed;
    __u64 generator;
    __u64 stream; /* units that have passed */
    __u64 next; /* UNKNOWN: none was drawn yet, or the table has no more */
    __u64 next_row;
    __u64 positions[MOST_POSITIONS]; /* UNKNOWN after the last */
};

/* A frame on its way through its passes. A CPU has one at a time. */
struct frame {
    __u64 end; /* of its units in the stream; 0: it had no pass yet */
    __u64 errors_end; /* the unit after its last error so far */
    __u64 hit;
    __u64 offsets[PASS + 1]; /* bits of the frame, and UNKNOWN after the last */
};

struct logarithms {
    __u64 of_mantissa[(1 << LOG_BITS) + 1]; /* ln(1 + i / 2^LOG_BITS) * 2^58 */
    __u64 of_power[64]; /* (n + 1) * ln(2) * 2^58 at 2^n * DE_BRUIJN >> 58 */
};

struct counters {
    __u64 packets;
    __u64 bytes;
    __u64 hit_packets;
    __u64 flipped_bits;
    __u64 dropped_packets;
    __u64 unfinished_frames;
};

struct {
    __uint(type, BPF_MAP_TYPE_ARRAY);
    __uint(max_entries, 1);
    __type(key, __u32);
    __type(value, struct process);
} processes SEC(".maps");

struct {
    __uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
    __uint(max_entries, 1);
    __type(key, __u32);
    __type(value, struct frame);
} frames SEC(".maps");

struct {
    __uint(type, BPF_MAP_TYPE_ARRAY);
    __uint(max_entries, 1);
    __type(key, __u32);
    __type(value, struct logarithms);
} logarithms SEC(".maps");

struct {
    __uint(type, BPF_MAP_TYPE_ARRAY);
    __uint(max_entries, 1);
    __type(key, __u32);
    __type(value, struct counters);
} counters SEC(".maps");

int errors(struct __sk_buff *skb);

struct {
    __uint(type, BPF_MAP_TYPE_PROG_ARRAY);
    __uint(max_entries, 1);
    __uint(key_size, sizeof(__u32));
    __array(values, int(struct __sk_buff *));
} passes SEC(".maps") = {.values = {[0] = (void *)&errors}};

/* splitmix64 (Steele, Lea and Flood, "Fast splittable pseudorandom number generators", 2014) */
static __always_inline __u64 draw(struct process *process)
{
    __u64 x = process->generator += 0x9e3779b97f4a7c15ULL;

    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ULL;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebULL;
    return x ^ (x >> 31);
}

static __always_inline __u64 high_half_of_product(__u64 a, __u64 b)
{
    __u64 a_low = (__u32)a, a_high = a >> 32, b_low = (__u32)b, b_high = b >> 32;
    __u64 middle = a_high * b_low + (a_low * b_low >> 32);
    __u64 other = a_low * b_high + (__u32)middle;

    return a_high * b_high + (middle >> 32) + (other >> 32);
}

/*
 * -ln(U) * 2^58 for a U between 0 and 1: the lowest bit set in x is its power of two, the bits above are its
 * mantissa. Straight lines go between the rows of the table. Branches would be too much for the verifier.
 */
static __always_inline __u64 exponential(__u64 x, const struct logarithms *logarithms)
{
    __u64 lowest = x & -x, mantissa = x ^ lowest;
    __u64 row = mantissa >> (64 - LOG_BITS), fraction = (__u32)(mantissa >> (32 - LOG_BITS));
    __u64 low = logarithms->of_mantissa[row];
    __u64 rise = (logarithms->of_mantissa[row + 1] - low) >> 14;

    return logarithms->of_power[lowest * DE_BRUIJN >> 58] - low - (rise * fraction >> 18);
}

static __always_inline __u64 drawn_after(struct process *process, const struct logarithms *logarithms)
{
    __u64 waited = exponential(draw(process), logarithms);

    return process->next + 1 + (high_half_of_product(waited, process->multiplier) >> process->shift);
}

static __always_inline __u64 listed_next(struct process *process)
{
    return process->positions[process->next_row++ & (MOST_POSITIONS - 1)];
}

/* Give a frame its part of the stream, or find it overtaken: by another one or by another process. */
static __always_inline int enter(struct process *process, struct frame *frame, __u64 units,
                                 const struct logarithms *logarithms)
{
    if (frame->end)
        return frame->end == process->stream;
    if (process->stream == 0)
        process->next = process->drawn ? drawn_after(process, logarithms) : listed_next(process);
    process->stream += units;
    frame->end = process->stream;
    return 1;
}

/* Note the errors of a pass, as offsets from the frame's start, which those that an unfinished frame left are before */
static __always_inline void note(struct process *process, struct frame *frame, __u64 start, __u32 drawn,
                                 const struct logarithms *logarithms)
{
    int i;

    for (i = 0; i < PASS; i++) {
        if (process->next >= frame->end)
            break;
        frame->offsets[i] = process->next - start;
        frame->offsets[i + 1] = UNKNOWN;
        frame->errors_end = process->next + 1;
        process->next = drawn ? drawn_after(process, logarithms) : listed_next(process);
    }
}

/*
 * The packets that have a byte of a hit block. A block that is hit stays `next` until the stream has left it, so that it
 * hits all of its packets. After PASS hit blocks that no packet is left in, the gap to the next is drawn from here on:
 * gaps are geometric, so that it is distributed as if all those between had been drawn.
 */
static __always_inline void hit_by_blocks(struct process *process, struct frame *frame, __u64 bytes,
                                          const struct logarithms *logarithms)
{
    __u64 first, last;
    int i;

    if (process->stream == 0)
        process->next = drawn_after(process, logarithms);
    first = process->stream / process->block_bytes;
    process->stream += bytes;
    last = (process->stream - 1) / process->block_bytes;
    for (i = 0; i < PASS; i++) {
        if (process->next >= first)
            break;
        process->next = drawn_after(process, logarithms);
    }
    if (process->next < first) {
        process->next = first - 1;
        process->next = drawn_after(process, logarithms);
    }
    frame->hit |= process->next <= last;
}

/* One pass under the lock; say whether errors are left. */
static __always_inline int pass(struct process *process, struct frame *frame, __u64 bits,
                                const struct logarithms *logarithms)
{
    __u64 units = process->unit == PACKET ? 1 : bits, start;

    frame->offsets[0] = UNKNOWN;
    if (process->unit == BLOCK) {
        hit_by_blocks(process, frame, bits / 8, logarithms);
        return 0;
    }
    if (!enter(process, frame, units, logarithms))
        return 1;
    start = frame->end - units;
    if (process->drawn)
        note(process, frame, start, 1, logarithms);
    else
        note(process, frame, start, 0, logarithms);
    if (process->unit == PACKET && frame->errors_end > start)
        frame->offsets[0] = (draw(process) >> 20) * bits >> 44;
    frame->hit |= frame->errors_end > start;
    return process->next < frame->end;
}

/* Flip the noted bits and say how many; the kernel refuses those that are not in the frame. */
static __always_inline __u64 flip(struct __sk_buff *skb, const struct frame *frame)
{
    __u64 flipped = 0;
    int i;

    for (i = 0; i < PASS; i++) {
        __u32 offset = frame->offsets[i] / 8;
        __u8 byte = 0;

        if (frame->offsets[i] == UNKNOWN)
            break;
        bpf_skb_load_bytes(skb, offset, &byte, 1);
        byte ^= 0x80 >> frame->offsets[i] % 8;
        flipped += 1 + (bpf_skb_store_bytes(skb, offset, &byte, 1, 0) >> 63); /* it returns 0 or less */
    }
    return flipped;
}

SEC("tc")
int errors(struct __sk_buff *skb)
{
    __u32 zero = 0, effect, left;
    __u64 bits = (__u64)skb->len * 8, hit;
    struct process *process = bpf_map_lookup_elem(&processes, &zero);
    struct frame *frame = bpf_map_lookup_elem(&frames, &zero);
    struct logarithms *logs = bpf_map_lookup_elem(&logarithms, &zero);
    struct counters *counts = bpf_map_lookup_elem(&counters, &zero);

    if (!process || !frame || !logs || !counts)
        return TC_ACT_UNSPEC;

    bpf_spin_lock(&process->lock);
    effect = process->effect;
    left = pass(process, frame, bits, logs);
    bpf_spin_unlock(&process->lock);

    if (effect == FLIP)
        __sync_fetch_and_add(&counts->flipped_bits, flip(skb, frame));
    if (left) {
        bpf_tail_call(skb, &passes, 0);
        __sync_fetch_and_add(&counts->unfinished_frames, 1);
    }

    hit = frame->hit;
    frame->end = frame->hit = frame->errors_end = 0;
    __sync_fetch_and_add(&counts->packets, 1);
    __sync_fetch_and_add(&counts->bytes, skb->len);
    if (!hit)
        return TC_ACT_UNSPEC;
    __sync_fetch_and_add(&counts->hit_packets, 1);
    if (effect != DROP)
        return TC_ACT_UNSPEC;
    __sync_fetch_and_add(&counts->dropped_packets, 1);
    return TC_ACT_SHOT;
}

char _license[] SEC("license") = "Dual MIT/GPL";
