/* Initialisation: the cards that this process can reach, and its slot among the clients. */
#include "api.h"
#include "entry.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/mman.h>
#include <unistd.h>

struct driver driver = {
    .lock = PTHREAD_MUTEX_INITIALIZER, .status = CUDA_ERROR_NOT_INITIALIZED, .client = -1};

/* Ordinals follow the PCI bus, as with CUDA_DEVICE_ORDER=PCI_BUS_ID; the real driver's other
 * order, fastest first, is the same for equal cards. */
static void sort_by_bus(uint32_t *cards, int count) {
    for (int i = 1; i < count; i++)
        for (int j = i; j > 0 && strcmp(driver.state->cards[cards[j]].bus,
                                        driver.state->cards[cards[j - 1]].bus) < 0;
             j--) {
            uint32_t card = cards[j];
            cards[j] = cards[j - 1];
            cards[j - 1] = card;
        }
}

static int reachable_cards(uint32_t *cards) {
    int count = 0;
    for (uint32_t card = 0; card < driver.state->card_count; card++)
        if (!driver.state->cards[card].lost && sim_card_granted(&driver.state->cards[card]))
            cards[count++] = card;
    sort_by_bus(cards, count);
    return count;
}

/* One word of CUDA_VISIBLE_DEVICES: an ordinal, or the beginning of a UUID. -1: none such. */
static int named_card(const char *word, const uint32_t *cards, int count) {
    char *end;
    long ordinal = strtol(word, &end, 10);
    if (end != word && *end == '\0')
        return ordinal >= 0 && ordinal < count ? (int)cards[ordinal] : -1;
    if (strncasecmp(word, "GPU-", 4) != 0)
        return -1;
    for (int i = 0; i < count; i++)
        if (strncasecmp(driver.state->cards[cards[i]].uuid, word, strlen(word)) == 0)
            return (int)cards[i];
    return -1;
}

/* The list ends at its first word that names no card, or a card that it named before. */
static void choose_devices(void) {
    uint32_t cards[SIM_CARDS_MAX];
    int count = reachable_cards(cards);
    const char *list = getenv("CUDA_VISIBLE_DEVICES");
    if (!list) {
        memcpy(driver.cards, cards, sizeof cards);
        driver.device_count = count;
        return;
    }
    char text[1024], *rest = text;
    snprintf(text, sizeof text, "%s", list);
    for (char *word; (word = strsep(&rest, ",")) && driver.device_count < SIM_CARDS_MAX;) {
        int card = named_card(word + strspn(word, " "), cards, count);
        for (int i = 0; i < driver.device_count; i++)
            if ((int)driver.cards[i] == card)
                driver.device_count = 0, card = -1; /* a repeated card: the real one shows none */
        if (card < 0)
            return;
        driver.cards[driver.device_count++] = (uint32_t)card;
    }
}

/* getpid would be a system call, at every call of the driver. */
static const int *make_alive(void) {
    size_t bytes = (size_t)getpagesize();
    int *alive = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (alive == MAP_FAILED)
        return NULL;
    *alive = 1;
    if (madvise(alive, bytes, MADV_WIPEONFORK) == 0)
        return alive;
    munmap(alive, bytes);
    return NULL;
}

static CUresult initialise(void) {
    driver.state = sim_state_map();
    if (!driver.state || !sim_node_granted("nvidiactl"))
        return CUDA_ERROR_NO_DEVICE;
    if (sim_driver_mismatch(driver.state))
        return CUDA_ERROR_SYSTEM_DRIVER_MISMATCH;
    driver.device_count = 0;
    choose_devices();
    if (driver.device_count == 0)
        return CUDA_ERROR_NO_DEVICE;
    driver.client = sim_client_claim(driver.state);
    if (driver.client < 0)
        return CUDA_ERROR_OPERATING_SYSTEM;
    driver.alive = make_alive();
    if (!driver.alive)
        return CUDA_ERROR_OPERATING_SYSTEM;
    driver.pid = getpid();
    return CUDA_SUCCESS;
}

CUresult cuInit(unsigned flags) {
    if (flags != 0)
        return CUDA_ERROR_INVALID_VALUE;
    if (driver.alive && !*driver.alive) /* before the lock, which another thread may have had */
        return CUDA_ERROR_NOT_INITIALIZED;
    pthread_mutex_lock(&driver.lock);
    CUresult status = driver.status;
    if (status != CUDA_SUCCESS) {
        int saved = errno;
        status = driver.status = initialise();
        errno = saved;
    }
    pthread_mutex_unlock(&driver.lock);
    return status;
}

CUresult driver_ready(void) {
    if (driver.status != CUDA_SUCCESS)
        return CUDA_ERROR_NOT_INITIALIZED;
    return *driver.alive ? CUDA_SUCCESS : CUDA_ERROR_NOT_INITIALIZED;
}

/* Works before cuInit, and without any card. */
CUresult cuDriverGetVersion(int *version) {
    if (!version)
        return CUDA_ERROR_INVALID_VALUE;
    *version = entry_cuda_version();
    return CUDA_SUCCESS;
}

CUresult device_card(CUdevice device, uint32_t *card) {
    CUresult ready = driver_ready();
    if (ready != CUDA_SUCCESS)
        return ready;
    if (device < 0 || device >= driver.device_count)
        return CUDA_ERROR_INVALID_DEVICE;
    *card = driver.cards[device];
    return CUDA_SUCCESS;
}
