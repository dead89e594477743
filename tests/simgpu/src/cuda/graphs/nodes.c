/* Sets of graph nodes, small and in the order of their coming. */
#include <stdlib.h>

#include "graph.h"

bool nodes_have(const struct nodes *set, const struct node *node) {
    for (size_t i = 0; i < set->count; i++)
        if (set->items[i] == node)
            return true;
    return false;
}

bool nodes_add(struct nodes *set, struct node *node) {
    if (nodes_have(set, node))
        return true;
    struct node **items = realloc(set->items, (set->count + 1) * sizeof(struct node *));
    if (!items)
        return false;
    items[set->count++] = node;
    set->items = items;
    return true;
}

bool nodes_merge(struct nodes *set, const struct nodes *from) {
    for (size_t i = 0; i < from->count; i++)
        if (!nodes_add(set, from->items[i]))
            return false;
    return true;
}

bool nodes_copy(struct nodes *set, const struct nodes *from) {
    struct nodes copy = {NULL, 0};
    if (!nodes_merge(&copy, from)) {
        nodes_clear(&copy);
        return false;
    }
    nodes_clear(set);
    *set = copy;
    return true;
}

void nodes_clear(struct nodes *set) {
    free(set->items);
    *set = (struct nodes){NULL, 0};
}

bool nodes_lead_from(const struct nodes *set, const struct node *node) {
    if (nodes_have(set, node))
        return true;
    for (size_t i = 0; i < set->count; i++)
        if (nodes_lead_from(&set->items[i]->after, node))
            return true;
    return false;
}
