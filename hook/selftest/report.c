#include "report.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

void report_gated(struct report *report, const char *name) {
    if (report->gated_count < MAX_GATED) {
        report->gated[report->gated_count++] = name;
    }
}

void report_card(struct report *report, const struct card *card) {
    if (report->card_count < VCUDA_MAX_CARDS) {
        report->cards[report->card_count++] = *card;
    }
}

void report_problem(struct report *report, const char *format, ...) {
    if (report->problem_count < MAX_PROBLEMS) {
        va_list arguments;
        va_start(arguments, format);
        vsnprintf(report->problems[report->problem_count], PROBLEM_CHARS, format, arguments);
        va_end(arguments);
    }
    report->problem_count++;
}

const struct vcuda_device_limit *report_limit(const struct report *report, const uint8_t *uuid) {
    const struct vcuda_limits_body *limits = report->limits;
    for (unsigned i = 0; limits != NULL && i < limits->device_count && i < VCUDA_MAX_CARDS; i++) {
        if (memcmp(limits->devices[i].uuid, uuid, VCUDA_UUID_BYTES) == 0) {
            return &limits->devices[i];
        }
    }
    return NULL;
}

static void print_text(const char *text) {
    putchar('"');
    for (; *text != '\0'; text++) {
        if (*text == '"' || *text == '\\') {
            putchar('\\');
        }
        putchar((unsigned char)*text < ' ' ? ' ' : *text);
    }
    putchar('"');
}

static void print_uuid(const uint8_t *uuid) {
    printf("\"uuid\": \"GPU");
    for (unsigned i = 0; i < VCUDA_UUID_BYTES; i++) {
        const char *dash = i == 0 || i == 4 || i == 6 || i == 8 || i == 10 ? "-" : "";
        printf("%s%02x", dash, uuid[i]);
    }
    putchar('"');
}

static void print_limits(const struct vcuda_limits_body *limits) {
    if (limits == NULL) {
        printf("  \"limits\": null,\n");
        return;
    }
    printf("  \"limits\": {\"on_error\": \"%s\", \"devices\": [",
           limits->on_error == VCUDA_ON_ERROR_OPEN ? "open" : "closed");
    for (unsigned i = 0; i < limits->device_count && i < VCUDA_MAX_CARDS; i++) {
        const struct vcuda_device_limit *limit = &limits->devices[i];
        printf("%s\n    {", i == 0 ? "" : ",");
        print_uuid(limit->uuid);
        printf(", \"memory_bytes\": %llu, \"context_bytes\": %llu,"
               " \"compute_percent\": %u, \"burst_percent\": %u}",
               (unsigned long long)limit->memory_bytes, (unsigned long long)limit->context_bytes,
               limit->compute_percent, limit->burst_percent);
    }
    printf("]},\n");
}

void report_print(const struct report *report) {
    printf("{\n  \"version\": \"%s\",\n  \"layout\": %u,\n", HOOK_VERSION, VCUDA_LAYOUT_VERSION);
    printf("  \"hook\": ");
    print_text(report->hook == NULL ? "" : report->hook);
    printf(",\n  \"driver_version\": %d,\n", report->driver_version);
    print_limits(report->limits);
    printf("  \"gated\": [");
    for (unsigned i = 0; i < report->gated_count; i++) {
        printf("%s\"%s\"", i == 0 ? "" : ", ", report->gated[i]);
    }
    printf("],\n  \"cards\": [");
    for (unsigned i = 0; i < report->card_count; i++) {
        const struct card *card = &report->cards[i];
        printf("%s{", i == 0 ? "" : ", ");
        print_uuid(card->uuid);
        printf(", \"total_bytes\": %zu, \"free_bytes\": %zu}", card->total_bytes, card->free_bytes);
    }
    printf("],\n  \"full_cards\": %u,\n  \"problems\": [", report->full);
    for (unsigned i = 0; i < report->problem_count && i < MAX_PROBLEMS; i++) {
        printf("%s\n    ", i == 0 ? "" : ",");
        print_text(report->problems[i]);
    }
    printf("],\n  \"holds\": %s\n}\n", report->problem_count == 0 ? "true" : "false");
}
