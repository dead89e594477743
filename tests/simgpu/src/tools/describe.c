#include "describe.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "timing.h"
#include "values.h"

/* FNV-1a, then the finaliser of splitmix64, so that one changed character changes all digits. */
static uint64_t hash(const char *text) {
    uint64_t value = 0xcbf29ce484222325ULL;
    for (; *text; text++)
        value = (value ^ (unsigned char)*text) * 0x100000001b3ULL;
    value = (value ^ value >> 30) * 0xbf58476d1ce4e5b9ULL;
    value = (value ^ value >> 27) * 0x94d049bb133111ebULL;
    return value ^ value >> 31;
}

/* UUIDs of cards without one in the description: stable on a host, different between hosts. */
static void default_uuid(char *uuid, size_t size, uint32_t minor) {
    char seed[300] = "";
    FILE *file = fopen("/etc/machine-id", "re");
    if (!file || !fgets(seed, 64, file))
        gethostname(seed, 64);
    if (file)
        fclose(file);
    size_t used = strlen(seed);
    gethostname(seed + used, sizeof seed - used - 16);
    used = strlen(seed);
    uint64_t half[2];
    for (int part = 0; part < 2; part++) {
        snprintf(seed + used, sizeof seed - used, "/%u/%d", minor, part);
        half[part] = hash(seed);
    }
    snprintf(uuid, size, "GPU-%08x-%04x-%04x-%04x-%012llx", (unsigned)(half[0] >> 32),
             (unsigned)(half[0] >> 16) & 0xffff, (unsigned)half[0] & 0xffff,
             (unsigned)(half[1] >> 48), (unsigned long long)half[1] & 0xffffffffffffULL);
}

static void default_card(struct sim_card *card, uint32_t index, uint32_t minor) {
    *card = (struct sim_card){.minor = minor,
                              .memory_bytes = 85899345920ULL,
                              .sms = 108,
                              .capability_major = 8,
                              .running = -1};
    default_uuid(card->uuid, sizeof card->uuid, minor);
    snprintf(card->model, sizeof card->model, "NVIDIA A100-SXM4-80GB");
    snprintf(card->bus, sizeof card->bus, "0000:%02x:00.0", 7 + 8 * index);
}

static void default_links(struct sim_state *state) {
    for (uint32_t a = 0; a < state->card_count; a++)
        for (uint32_t b = 0; b < state->card_count; b++)
            snprintf(state->links[a][b], sizeof state->links[a][b], a == b ? "X" : "NV12");
}

static bool read_pair(const struct json *value, const char *where, unsigned *major, unsigned *minor,
                      struct problem *problem) {
    char extra;
    if (value->kind != JSON_STRING || sscanf(value->text, "%u.%u%c", major, minor, &extra) != 2)
        return refuse(problem, "%s%s: not a text like \"12.2\"", where, value->key);
    return true;
}

static bool read_bus(const struct json *value, const char *where, struct sim_card *card,
                     struct problem *problem) {
    unsigned domain, bus, device, function;
    char extra;
    if (!read_text(value, where, card->bus, sizeof card->bus, problem))
        return false;
    if (sscanf(card->bus, "%4x:%2x:%2x.%1x%c", &domain, &bus, &device, &function, &extra) != 4)
        return refuse(problem, "%sbus: not like 0000:07:00.0", where);
    return true;
}

static bool read_member(const struct json *value, const char *where, struct sim_card *card,
                        struct problem *problem) {
    double number = 0;
    const char *key = value->key;
    if (strcmp(key, "minor") == 0)
        return true; /* read first: defaults hang on it */
    if (strcmp(key, "uuid") == 0)
        return read_text(value, where, card->uuid, sizeof card->uuid, problem);
    if (strcmp(key, "model") == 0)
        return read_text(value, where, card->model, sizeof card->model, problem);
    if (strcmp(key, "bus") == 0)
        return read_bus(value, where, card, problem);
    if (strcmp(key, "capability") == 0)
        return read_pair(value, where, &card->capability_major, &card->capability_minor, problem);
    bool ok = false;
    if (strcmp(key, "memory") == 0) {
        ok = read_number(value, where, 1 << 28, 1e13, &number, problem);
        card->memory_bytes = (uint64_t)number;
    } else if (strcmp(key, "sms") == 0) {
        ok = read_number(value, where, 1, 1024, &number, problem);
        card->sms = (uint32_t)number;
    } else if (strcmp(key, "numa") == 0) {
        ok = read_number(value, where, -1, 63, &number, problem);
        card->numa = (int32_t)number;
    } else {
        return refuse(problem, "%s%s: unknown key", where, key);
    }
    return ok;
}

static const struct json *member(const struct json *object, const char *key) {
    for (const struct json *at = object->child; at; at = at->next)
        if (strcmp(at->key, key) == 0)
            return at;
    return NULL;
}

static bool read_card(const struct json *entry, struct sim_state *state, struct problem *problem) {
    char where[32];
    uint32_t index = state->card_count;
    snprintf(where, sizeof where, "cards[%u].", index);
    const struct json *minor = entry->kind == JSON_OBJECT ? member(entry, "minor") : NULL;
    if (index == SIM_CARDS_MAX)
        return refuse(problem, "cards: more than %d", SIM_CARDS_MAX);
    if (!minor)
        return refuse(problem, "%sminor: missing", where);
    double number = 0;
    if (!read_number(minor, where, 0, 254, &number, problem))
        return false;
    struct sim_card *card = &state->cards[index];
    default_card(card, index, (uint32_t)number);
    for (const struct json *at = entry->child; at; at = at->next)
        if (!read_member(at, where, card, problem))
            return false;
    for (uint32_t other = 0; other < index; other++)
        if (state->cards[other].minor == card->minor ||
            strcmp(state->cards[other].uuid, card->uuid) == 0 ||
            strcmp(state->cards[other].bus, card->bus) == 0)
            return refuse(problem, "%s: minor, uuid or bus as cards[%u]", where, other);
    state->card_count++;
    return true;
}

static bool is_link(const char *token) {
    static const char *const tokens[] = {"X", "PIX", "PXB", "PHB", "NODE", "SYS"};
    for (size_t i = 0; i < sizeof tokens / sizeof tokens[0]; i++)
        if (strcmp(token, tokens[i]) == 0)
            return true;
    unsigned count;
    char extra;
    return sscanf(token, "NV%u%c", &count, &extra) == 1 && count >= 1 && count <= 18;
}

static bool read_links(const struct json *rows, struct sim_state *state, struct problem *problem) {
    uint32_t a = 0;
    for (const struct json *row = rows->child; row; row = row->next, a++) {
        uint32_t b = 0;
        for (const struct json *cell = row->child; cell; cell = cell->next, b++) {
            if (a >= state->card_count || b >= state->card_count)
                return refuse(problem, "links: more rows or columns than cards");
            if (cell->kind != JSON_STRING || !is_link(cell->text) ||
                (strcmp(cell->text, "X") == 0) != (a == b))
                return refuse(problem, "links[%u][%u]: not one of X NV<n> PIX PXB PHB NODE SYS", a,
                              b);
            snprintf(state->links[a][b], sizeof state->links[a][b], "%s", cell->text);
        }
        if (b != state->card_count)
            return refuse(problem, "links[%u]: %u columns for %u cards", a, b, state->card_count);
    }
    if (a != state->card_count)
        return refuse(problem, "links: %u rows for %u cards", a, state->card_count);
    for (uint32_t i = 0; i < a; i++)
        for (uint32_t j = 0; j < i; j++)
            if (strcmp(state->links[i][j], state->links[j][i]) != 0)
                return refuse(problem, "links[%u][%u]: differs from links[%u][%u]", i, j, j, i);
    return true;
}

static bool read_all(const struct json *root, struct sim_state *state, struct problem *problem) {
    if (root->kind != JSON_OBJECT)
        return refuse(problem, "not an object");
    static const char *const keys[] = {"driver", "cuda", "cards", "links", "timing"};
    for (const struct json *at = root->child; at; at = at->next) {
        bool known = false;
        for (size_t i = 0; i < sizeof keys / sizeof keys[0]; i++)
            known |= strcmp(at->key, keys[i]) == 0;
        if (!known)
            return refuse(problem, "%s: unknown key", at->key);
    }
    const struct json *driver = member(root, "driver"), *cuda = member(root, "cuda");
    const struct json *cards = member(root, "cards"), *links = member(root, "links");
    const struct json *timing = member(root, "timing");
    unsigned major = 0, minor = 0;
    if (driver && !read_text(driver, "", state->driver, sizeof state->driver, problem))
        return false;
    if (cuda && !read_pair(cuda, "", &major, &minor, problem))
        return false;
    if (cuda)
        state->cuda_version = (int32_t)(major * 1000 + minor * 10);
    if (!cards || cards->kind != JSON_ARRAY)
        return refuse(problem, "cards: missing, or not a list");
    for (const struct json *entry = cards->child; entry; entry = entry->next)
        if (!read_card(entry, state, problem))
            return false;
    default_links(state);
    return (!links || read_links(links, state, problem)) &&
           (!timing || read_timing(timing, &state->timing, problem));
}

static char *read_file(const char *path) {
    FILE *file = fopen(path, "re");
    if (!file)
        return NULL;
    size_t size = 1 << 16; /* 16 cards take 4 KiB */
    char *text = calloc(1, size + 1);
    if (text && fread(text, 1, size, file) == size) {
        free(text);
        text = NULL;
        errno = EFBIG;
    }
    fclose(file);
    return text;
}

bool describe_cards(const char *path, struct sim_state *state, char *error, size_t error_size) {
    struct problem problem = {error, error_size};
    snprintf(state->driver, sizeof state->driver, "%s", SIMGPU_DRIVER);
    state->cuda_version = SIMGPU_CUDA;
    state->timing = timing_default();
    char *text = read_file(path);
    if (!text && errno != ENOENT)
        return refuse(&problem, "%s", strerror(errno));
    if (!text) {
        for (state->card_count = 0; state->card_count < 2; state->card_count++)
            default_card(&state->cards[state->card_count], state->card_count, state->card_count);
        default_links(state);
        return true;
    }
    struct json *root = json_parse(text, error, error_size);
    bool ok = root && read_all(root, state, &problem);
    json_free(root);
    free(text);
    return ok;
}
