/* The memory of a pool: chunks taken from the card, cut into blocks.
 *
 * A free is work of its stream: until the card has come to it, the block serves later
 * allocations of the same stream, and of streams that come after the free. The order in which a
 * request is served follows the CUDA programming guide's "Stream Ordered Memory Allocator":
 * reusable blocks, then more from the card, then (when that fails) a block before its free, for
 * which the stream waits. */
#include <stdlib.h>

#include "driver.h"

#define CHUNK_BYTES (32ULL << 20)

static bool is_over(struct block *block) {
    if (block->ready_ns && card_done(block->ready_card, block->ready_ns))
        block->ready_ns = 0;
    return !block->ready_ns;
}

/* Whether work of the stream comes after the free already. */
static bool is_after(const struct stream *stream, const struct block *block) {
    return stream->context->card == block->ready_card && stream->tail_ns >= block->ready_ns;
}

static bool is_reusable(const struct pool *pool, const struct stream *stream, struct block *block,
                        bool by_waiting) {
    if (block->used)
        return false;
    if (!block->stream || block->stream == stream)
        return true;
    if (pool->reuse[1] && is_over(block))
        return true;
    if (pool->reuse[0] && is_after(stream, block))
        return true;
    return by_waiting && pool->reuse[2] && stream->context->card == block->ready_card;
}

static struct block *new_block(struct chunk *chunk, uint64_t base, uint64_t bytes) {
    struct block *block = calloc(1, sizeof *block);
    if (block)
        *block = (struct block){.chunk = chunk, .base = base, .bytes = bytes};
    return block;
}

/* Leaves the first bytes to the block; without memory for the rest's record the block keeps all. */
static void cut(struct block *block, uint64_t bytes) {
    struct block *rest = block->bytes > bytes
                             ? new_block(block->chunk, block->base + bytes, block->bytes - bytes)
                             : NULL;
    if (!rest)
        return;
    rest->stream = block->stream;
    rest->ready_card = block->ready_card;
    rest->ready_ns = block->ready_ns;
    rest->next = block->next;
    block->next = rest;
    block->bytes = bytes;
}

static bool alike(const struct block *a, const struct block *b) {
    return !a->used && !b->used && a->stream == b->stream && a->ready_card == b->ready_card;
}

/* Joins free neighbours of the same stream; looking: also blocks after their free, which then
 * belong to any stream. */
static void join(struct chunk *chunk, bool looking) {
    for (struct block *block = chunk->blocks; block && looking; block = block->next)
        if (!block->used && is_over(block)) {
            block->stream = NULL;
            block->ready_card = 0;
        }
    for (struct block *block = chunk->blocks; block;) {
        struct block *next = block->next;
        if (!next || !alike(block, next)) {
            block = next;
            continue;
        }
        block->bytes += next->bytes;
        block->ready_ns = next->ready_ns > block->ready_ns ? next->ready_ns : block->ready_ns;
        block->next = next->next;
        free(next);
    }
}

/* The smallest that fits. */
static struct block *find(struct pool *pool, const struct stream *stream, uint64_t bytes,
                          bool by_waiting) {
    struct block *best = NULL;
    for (struct chunk *chunk = pool->chunks; chunk; chunk = chunk->next)
        for (struct block *block = chunk->blocks; block; block = block->next)
            if (block->bytes >= bytes && (!best || block->bytes < best->bytes) &&
                is_reusable(pool, stream, block, by_waiting))
                best = block;
    return best;
}

static struct chunk *add_chunk(struct pool *pool, uint64_t bytes) {
    struct chunk *chunk = calloc(1, sizeof *chunk);
    struct block *block = chunk ? new_block(chunk, 0, bytes) : NULL;
    bool allowed = !pool->maximum_bytes || (pool->reserved_bytes <= pool->maximum_bytes &&
                                            bytes <= pool->maximum_bytes - pool->reserved_bytes);
    struct backing *backing = NULL;
    if (block && allowed)
        backing = backing_make(pool->card, bytes, pool->handle_types);
    uint64_t base = backing ? backing_map(backing, 0, bytes, 0) : 0;
    if (!base) {
        if (backing)
            backing_release(backing);
        free(block);
        free(chunk);
        return NULL;
    }
    block->base = base;
    *chunk = (struct chunk){.next = pool->chunks,
                            .pool = pool,
                            .backing = backing,
                            .base = base,
                            .bytes = bytes,
                            .blocks = block};
    pool->chunks = chunk;
    pool->reserved_bytes += bytes;
    if (pool->reserved_bytes > pool->reserved_high_bytes)
        pool->reserved_high_bytes = pool->reserved_bytes;
    return chunk;
}

/* Takes whole chunks; where the card (or the pool's bound) has no room for that, as much as is
 * needed, if need be after giving idle chunks back. */
static struct block *grow(struct pool *pool, uint64_t bytes) {
    uint64_t chunks = round_up(bytes, CHUNK_BYTES);
    struct chunk *chunk = add_chunk(pool, chunks);
    if (!chunk)
        chunk = add_chunk(pool, heap_charge_bytes(bytes));
    if (!chunk) {
        pool_trim(pool, 0);
        chunk = add_chunk(pool, heap_charge_bytes(bytes));
    }
    return chunk ? chunk->blocks : NULL;
}

struct block *block_take(struct pool *pool, struct stream *stream, uint64_t bytes) {
    if (!bytes || bytes > UINT64_MAX / 2)
        return NULL;
    bytes = round_up(bytes, UNIT_BYTES);
    for (struct chunk *chunk = pool->chunks; chunk; chunk = chunk->next)
        join(chunk, pool->reuse[1]);
    struct block *block = find(pool, stream, bytes, false);
    if (!block)
        block = grow(pool, bytes);
    if (!block && (block = find(pool, stream, bytes, true)))
        stream_after(stream, block->ready_ns);
    if (!block)
        return NULL;
    cut(block, bytes);
    block->used = true;
    pool->used_bytes += block->bytes;
    if (pool->used_bytes > pool->used_high_bytes)
        pool->used_high_bytes = pool->used_bytes;
    return block;
}

void block_give(struct block *block, struct stream *stream) {
    struct pool *pool = block->chunk->pool;
    block->used = false;
    block->stream = stream;
    block->ready_card = stream ? stream->context->card : 0;
    block->ready_ns = stream ? stream_queue(stream, 0) : 0;
    pool->used_bytes -= block->bytes;
}

static void free_chunk(struct chunk *chunk) {
    while (chunk->blocks) {
        struct block *next = chunk->blocks->next;
        free(chunk->blocks);
        chunk->blocks = next;
    }
    chunk->pool->reserved_bytes -= chunk->bytes;
    backing_unmap(chunk->base, chunk->bytes);
    backing_release(chunk->backing);
    free(chunk);
}

static bool is_idle(struct chunk *chunk) {
    join(chunk, true); /* called at synchronisations and for trimming: the host has seen it */
    return !chunk->blocks->used && !chunk->blocks->next && is_over(chunk->blocks);
}

void pool_trim(struct pool *pool, uint64_t keep_bytes) {
    for (struct chunk **link = &pool->chunks; *link;) {
        struct chunk *chunk = *link;
        bool enough =
            pool->reserved_bytes >= keep_bytes && pool->reserved_bytes - keep_bytes >= chunk->bytes;
        if (!enough || !is_idle(chunk)) {
            link = &chunk->next;
            continue;
        }
        *link = chunk->next;
        free_chunk(chunk);
    }
}
