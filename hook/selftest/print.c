/* The report as people read it, and as JSON. */
#include <stdio.h>

#include "report.h"

static const char *const outcomes[] = {"refused", "granted", "not tried"};

static double mib(uint64_t bytes) { return (double)bytes / (1 << 20); }

static void print_limit(const struct report *report, const struct card *card) {
    char uuid[UUID_CHARS];
    const struct vcuda_device_limit *limit = report_limit(report, card->uuid);
    report_uuid(card->uuid, uuid);
    printf("card    %s\n", uuid);
    if (limit == NULL) {
        printf("        no limits: closed\n");
        return;
    }
    printf("        %.0f MiB of memory, %.0f MiB for each context; %u %% of the time",
           mib(limit->memory_bytes), mib(limit->context_bytes), limit->compute_percent);
    if (limit->burst_percent > limit->compute_percent) {
        printf(", %u %% while neighbours are idle", limit->burst_percent);
    }
    printf("\n");
    if (card->full) {
        printf("        not tried: the container has taken all of it, there is no room for a"
               " context\n");
    } else if (card->total_bytes != 0) {
        printf("        shows %.0f MiB, of which %.0f MiB are free\n", mib(card->total_bytes),
               mib(card->free_bytes));
    }
}

static void print_verdict(const struct report *report) {
    for (unsigned i = 0; i < report->problem_count && i < MAX_PROBLEMS; i++) {
        printf("PROBLEM %s\n", report->problems[i]);
    }
    if (report->problem_count > MAX_PROBLEMS) {
        printf("PROBLEM and %u more\n", report->problem_count - MAX_PROBLEMS);
    }
    static const char *const verdicts[] = {"The limits hold.", "The limits do not hold.",
                                           "There was nothing to test."};
    printf("%s\n", verdicts[report_status(report)]);
}

void print_text(const struct report *report, bool with_gated) {
    printf("hook    version %s, layout %u: %s\n", HOOK_VERSION, VCUDA_LAYOUT_VERSION,
           report->hook == NULL ? "not loaded" : report->hook);
    if (report->cuda_version == 0) {
        printf("driver  none\n");
    } else {
        printf("driver  %s, CUDA %d.%d\n",
               report->driver_version[0] == '\0' ? "of unknown version" : report->driver_version,
               report->cuda_version / 1000, report->cuda_version % 1000 / 10);
    }
    printf("gated   %u functions%s\n", report->gated_count,
           with_gated || report->gated_count == 0 ? "" : " (--gated lists them)");
    for (unsigned i = 0; with_gated && i < report->gated_count; i++) {
        printf("        %s\n", report->gated[i]);
    }
    if (report->limits != NULL) {
        printf("limits  %s when gating itself fails\n",
               report->limits->on_error == VCUDA_ON_ERROR_OPEN ? "open" : "closed");
    }
    for (unsigned i = 0; i < report->card_count; i++) {
        const struct card *card = &report->cards[i];
        print_limit(report, card);
        for (unsigned j = 0; j < card->attempt_count; j++) {
            const struct attempt *attempt = &card->attempts[j];
            printf("        %-19s %-9s %s\n", attempt->what, outcomes[attempt->outcome],
                   attempt->why);
        }
    }
    print_verdict(report);
}

static void json_text(const char *text) {
    putchar('"');
    for (; *text != '\0'; text++) {
        if (*text == '"' || *text == '\\') {
            putchar('\\');
        }
        putchar((unsigned char)*text < ' ' ? ' ' : *text);
    }
    putchar('"');
}

static void json_uuid(const uint8_t *uuid) {
    char text[UUID_CHARS];
    report_uuid(uuid, text);
    printf("\"uuid\": \"%s\"", text);
}

static void json_limits(const struct vcuda_limits_body *limits) {
    if (limits == NULL) {
        printf("  \"limits\": null,\n");
        return;
    }
    printf("  \"limits\": {\"on_error\": \"%s\", \"devices\": [",
           limits->on_error == VCUDA_ON_ERROR_OPEN ? "open" : "closed");
    for (unsigned i = 0; i < limits->device_count && i < VCUDA_MAX_CARDS; i++) {
        const struct vcuda_device_limit *limit = &limits->devices[i];
        printf("%s\n    {", i == 0 ? "" : ",");
        json_uuid(limit->uuid);
        printf(", \"memory_bytes\": %llu, \"context_bytes\": %llu,"
               " \"compute_percent\": %u, \"burst_percent\": %u}",
               (unsigned long long)limit->memory_bytes, (unsigned long long)limit->context_bytes,
               limit->compute_percent, limit->burst_percent);
    }
    printf("]},\n");
}

static void json_card(const struct card *card) {
    printf("{");
    json_uuid(card->uuid);
    printf(", \"total_bytes\": %zu, \"free_bytes\": %zu, \"full\": %s, \"attempts\": [",
           card->total_bytes, card->free_bytes, card->full ? "true" : "false");
    for (unsigned i = 0; i < card->attempt_count; i++) {
        const struct attempt *attempt = &card->attempts[i];
        printf("%s\n    {\"what\": \"%s\", \"outcome\": \"%s\", \"why\": ", i == 0 ? "" : ",",
               attempt->what, outcomes[attempt->outcome]);
        json_text(attempt->why);
        printf("}");
    }
    printf("]}");
}

void print_json(const struct report *report) {
    static const char *const holds[] = {"true", "false", "null"};
    printf("{\n  \"version\": \"%s\",\n  \"layout\": %u,\n", HOOK_VERSION, VCUDA_LAYOUT_VERSION);
    printf("  \"hook\": ");
    json_text(report->hook == NULL ? "" : report->hook);
    printf(",\n  \"driver\": ");
    json_text(report->driver_version);
    printf(",\n  \"driver_version\": %d,\n", report->cuda_version);
    json_limits(report->limits);
    printf("  \"gated\": [");
    for (unsigned i = 0; i < report->gated_count; i++) {
        printf("%s\"%s\"", i == 0 ? "" : ", ", report->gated[i]);
    }
    printf("],\n  \"cards\": [");
    for (unsigned i = 0; i < report->card_count; i++) {
        printf("%s", i == 0 ? "" : ", ");
        json_card(&report->cards[i]);
    }
    printf("],\n  \"problems\": [");
    for (unsigned i = 0; i < report->problem_count && i < MAX_PROBLEMS; i++) {
        printf("%s\n    ", i == 0 ? "" : ",");
        json_text(report->problems[i]);
    }
    printf("],\n  \"holds\": %s\n}\n", holds[report_status(report)]);
}
