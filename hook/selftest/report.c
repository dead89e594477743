#include "report.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

void report_gated(struct report *report, const char *name) {
    if (report->gated_count < MAX_GATED) {
        report->gated[report->gated_count++] = name;
    }
}

struct card *report_card(struct report *report) {
    return report->card_count < VCUDA_MAX_CARDS ? &report->cards[report->card_count++] : NULL;
}

void report_problem(struct report *report, const char *format, ...) {
    if (report->problem_count < MAX_PROBLEMS) {
        va_list arguments;
        va_start(arguments, format);
        vsnprintf(report->problems[report->problem_count], TEXT_CHARS, format, arguments);
        va_end(arguments);
    }
    report->problem_count++;
}

void report_attempt(struct card *card, const char *what, enum outcome outcome, const char *format,
                    ...) {
    if (card->attempt_count < MAX_ATTEMPTS) {
        struct attempt *attempt = &card->attempts[card->attempt_count++];
        va_list arguments;
        attempt->what = what;
        attempt->outcome = outcome;
        va_start(arguments, format);
        vsnprintf(attempt->why, TEXT_CHARS, format, arguments);
        va_end(arguments);
    }
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

void report_uuid(const uint8_t *uuid, char text[UUID_CHARS]) {
    char *end = text + snprintf(text, UUID_CHARS, "GPU");
    for (unsigned i = 0; i < VCUDA_UUID_BYTES; i++) {
        const char *dash = i == 0 || i == 4 || i == 6 || i == 8 || i == 10 ? "-" : "";
        end += snprintf(end, (size_t)(text + UUID_CHARS - end), "%s%02x", dash, uuid[i]);
    }
}

int report_status(const struct report *report) {
    return report->missing ? 2 : report->problem_count != 0;
}
