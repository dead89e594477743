/* -L: one line a card. */
#include <stdio.h>

#include "fields.h"

int form_list(const struct options *options, const struct gpus *gpus) {
    (void)options;
    for (unsigned i = 0; i < gpus->count; i++) {
        char name[TEXT_CHARS], uuid[TEXT_CHARS];
        field_text("name", &gpus->gpu[i], name);
        field_text("uuid", &gpus->gpu[i], uuid);
        printf("GPU %u: %s (UUID: %s)\n", gpus->gpu[i].index, name, uuid);
    }
    return 0;
}
