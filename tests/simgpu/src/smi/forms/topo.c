/* topo -m: how near the cards are to each other and to the CPUs. */
#include <stdio.h>
#include <string.h>

#include "smi.h"

#define LINKS_MAX 18
#define WORDS 16 /* of a mask: 1024 CPUs or NUMA nodes */
#define REMOTE_SWITCH 2u

static bool same_card(const nvmlPciInfo_t *a, const nvmlPciInfo_t *b) {
    return a->domain == b->domain && a->bus == b->bus && a->device == b->device;
}

/* Active NVLinks of a card, those to `other` and those to a switch, which leads to all cards. */
struct links {
    unsigned direct, switched;
};

static struct links links_of(nvmlDevice_t device, nvmlDevice_t other) {
    struct links links = {0, 0};
    nvmlPciInfo_t target;
    if (ASK(nvmlDeviceGetPciInfo_v3, other, &target) != NVML_SUCCESS)
        return links;
    for (unsigned link = 0; link < LINKS_MAX; link++) {
        unsigned active = 0, type = 0;
        nvmlPciInfo_t remote;
        if (ASK(nvmlDeviceGetNvLinkState, device, link, &active) != NVML_SUCCESS || !active)
            continue;
        if (ASK(nvmlDeviceGetNvLinkRemoteDeviceType, device, link, &type) == NVML_SUCCESS &&
            type == REMOTE_SWITCH)
            links.switched++;
        else if (ASK(nvmlDeviceGetNvLinkRemotePciInfo_v2, device, link, &remote) == NVML_SUCCESS &&
                 same_card(&remote, &target))
            links.direct++;
    }
    return links;
}

static unsigned links_between(nvmlDevice_t a, nvmlDevice_t b) {
    struct links there = links_of(a, b), back = links_of(b, a);
    unsigned switched = there.switched < back.switched ? there.switched : back.switched;
    return there.direct ? there.direct : switched;
}

static const char *bridge_word(unsigned level) {
    switch (level) {
    case TOPOLOGY_INTERNAL:
    case TOPOLOGY_SINGLE:
        return "PIX";
    case TOPOLOGY_MULTIPLE:
        return "PXB";
    case TOPOLOGY_HOSTBRIDGE:
        return "PHB";
    case TOPOLOGY_NODE:
        return "NODE";
    case TOPOLOGY_SYSTEM:
        return "SYS";
    default:
        return "N/A";
    }
}

static void pair(const struct gpu *gpu, const struct gpu *other) {
    unsigned links = 0, level = ~0u;
    if (gpu->device == other->device) {
        printf("\t X ");
        return;
    }
    links = links_between(gpu->device, other->device);
    if (links) {
        printf("\tNV%u", links);
        return;
    }
    if (ASK(nvmlDeviceGetTopologyCommonAncestor, gpu->device, other->device, &level) !=
        NVML_SUCCESS)
        level = ~0u;
    printf("\t%s", bridge_word(level));
}

static bool bit(const unsigned long *mask, unsigned number) {
    const unsigned bits = 8 * sizeof *mask;
    return number < WORDS * bits && mask[number / bits] >> number % bits & 1;
}

/* "0-13,28-41" */
static void mask_column(nvmlReturn_t rc, const unsigned long *mask) {
    const unsigned end = WORDS * 8 * sizeof *mask;
    const char *comma = "";
    putchar('\t');
    for (unsigned first = 0; rc == NVML_SUCCESS && first < end; first++) {
        unsigned last = first;
        if (!bit(mask, first))
            continue;
        while (bit(mask, last + 1))
            last++;
        printf(last > first ? "%s%u-%u" : "%s%u", comma, first, last);
        comma = ",";
        first = last;
    }
    if (!*comma)
        printf("N/A");
}

static void line(const struct gpus *gpus, const struct gpu *gpu) {
    unsigned long cpus[WORDS] = {0}, nodes[WORDS] = {0};
    printf("GPU%u", gpu->index);
    for (unsigned i = 0; i < gpus->count; i++)
        pair(gpu, &gpus->gpu[i]);
    mask_column(ASK(nvmlDeviceGetCpuAffinity, gpu->device, WORDS, cpus), cpus);
    mask_column(ASK(nvmlDeviceGetMemoryAffinity, gpu->device, WORDS, nodes, 0), nodes);
    puts("\t\tN/A"); /* memory of the card as a NUMA node: on coherent machines only */
}

/* The escapes underline the head, also in a pipe: readers of the real output meet them too. */
static int matrix(const struct gpus *gpus) {
    printf("\t\033[4m");
    for (unsigned i = 0; i < gpus->count; i++)
        printf("GPU%u\t", gpus->gpu[i].index);
    puts("CPU Affinity\tNUMA Affinity\tGPU NUMA ID\033[0m");
    for (unsigned i = 0; i < gpus->count; i++)
        line(gpus, &gpus->gpu[i]);
    puts("\nLegend:\n\n"
         "  X    = the card itself\n"
         "  SYS  = across the link between NUMA nodes\n"
         "  NODE = across the link between host bridges of one NUMA node\n"
         "  PHB  = across a PCIe host bridge, commonly the CPU\n"
         "  PXB  = across several PCIe bridges, but no host bridge\n"
         "  PIX  = across one PCIe bridge at most\n"
         "  NV#  = across a bonded set of # NVLinks");
    return 0;
}

int run_topo(int argc, char **argv) {
    const char *ids = NULL;
    bool wanted = false;
    for (int i = 0; i < argc; i++) {
        if (strcmp(argv[i], "-m") == 0 || strcmp(argv[i], "--matrix") == 0) {
            wanted = true;
        } else if (strcmp(argv[i], "-i") == 0 && i + 1 < argc) {
            ids = argv[++i];
        } else {
            wanted = false;
            break;
        }
    }
    if (!wanted) {
        puts("Usage: nvidia-smi topo -m [-i ID[,ID...]]");
        return argc == 1 && strcmp(argv[0], "-h") == 0 ? 0 : EXIT_BAD_ARGUMENT;
    }
    struct gpus gpus;
    int status = nvml_open();
    if (!status)
        status = gpus_select(ids, &gpus);
    return status ? status : matrix(&gpus);
}
