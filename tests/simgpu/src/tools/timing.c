#include "timing.h"

#include <string.h>

#define SLICE_NS 2000000ULL
#define EVENT_NS 1000ULL
#define EVENT_TICK_NS 500ULL
#define HOST_MB_S 25000ULL
#define IN_DEVICE_MB_S 1019500ULL
#define FILL_MB_S 2039000ULL
#define NVLINK_MB_S 25000ULL

static const struct {
    const char *word;
    enum sim_counting counting;
} countings[] = {{"exact", SIM_COUNT_EXACT},
                 {"late", SIM_COUNT_LATE},
                 {"seconds", SIM_COUNT_SECONDS},
                 {"samples", SIM_COUNT_SAMPLES},
                 {"samples-last", SIM_COUNT_SAMPLES_LAST}};

struct sim_timing timing_default(void) {
    return (struct sim_timing){
        .slice_ns = SLICE_NS,
        .event_ns = EVENT_NS,
        .event_tick_ns = EVENT_TICK_NS,
        .copy_mb_s = {HOST_MB_S, HOST_MB_S, IN_DEVICE_MB_S, HOST_MB_S},
        .fill_mb_s = FILL_MB_S,
        .nvlink_mb_s = NVLINK_MB_S,
    };
}

static bool read_counting(const struct json *value, struct sim_timing *timing,
                          struct problem *problem) {
    for (size_t i = 0; value->kind == JSON_STRING && i < sizeof countings / sizeof *countings; i++)
        if (strcmp(value->text, countings[i].word) == 0) {
            timing->counting = countings[i].counting;
            return true;
        }
    return refuse(problem, "timing.counting: not one of exact late seconds samples samples-last");
}

bool read_timing(const struct json *object, struct sim_timing *timing, struct problem *problem) {
    const struct {
        const char *key;
        double low;
        uint64_t *out;
    } members[] = {{"slice_ns", 1000, &timing->slice_ns},
                   {"switch_ns", 0, &timing->switch_ns},
                   {"event_ns", 0, &timing->event_ns},
                   {"event_tick_ns", 1, &timing->event_tick_ns},
                   {"to_device_mb_s", 1, &timing->copy_mb_s[SIM_TO_DEVICE]},
                   {"to_host_mb_s", 1, &timing->copy_mb_s[SIM_TO_HOST]},
                   {"in_device_mb_s", 1, &timing->copy_mb_s[SIM_IN_DEVICE]},
                   {"peer_mb_s", 1, &timing->copy_mb_s[SIM_PEER]},
                   {"fill_mb_s", 1, &timing->fill_mb_s},
                   {"nvlink_mb_s", 1, &timing->nvlink_mb_s}};
    double number = 0;
    for (const struct json *at = object->child; at; at = at->next) {
        size_t i = 0;
        if (strcmp(at->key, "counting") == 0) {
            if (!read_counting(at, timing, problem))
                return false;
            continue;
        }
        while (i < sizeof members / sizeof members[0] && strcmp(at->key, members[i].key) != 0)
            i++;
        if (i == sizeof members / sizeof members[0])
            return refuse(problem, "timing.%s: unknown key", at->key);
        if (!read_number(at, "timing.", members[i].low, 1e9, &number, problem))
            return false;
        *members[i].out = (uint64_t)number;
    }
    return true;
}
