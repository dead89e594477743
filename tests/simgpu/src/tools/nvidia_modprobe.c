/* nvidia-modprobe, as far as there are no modules: "loading" makes the shared state and the /proc
 * stand-ins; -c and -u make device nodes as the real one does. */
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "init.h"
#include "nodes.h"

struct options {
    bool uvm, modeset;
    unsigned minors[SIM_CARDS_MAX + 1];
    unsigned count;
};

static const char usage[] =
    "usage: nvidia-modprobe [-c MINOR]... [-u] [-m] [-h] [-v]\n"
    "Makes the simulated driver ready.\n"
    "  -c, --create-nvidia-device-file=MINOR  make /dev/nvidiaMINOR and /dev/nvidiactl\n"
    "  -u, --unified-memory                   make /dev/nvidia-uvm and /dev/nvidia-uvm-tools\n"
    "  -m, --modeset                          make /dev/nvidia-modeset\n"
    "  -v, --version                          print the version\n";

static bool read_minor(const char *text, struct options *options) {
    char *end;
    text += *text == '='; /* the real tool takes -c=0 too */
    unsigned long minor = strtoul(text, &end, 10);
    if (end == text || *end || minor > SIM_MINOR_CONTROL || options->count > SIM_CARDS_MAX) {
        fprintf(stderr, "nvidia-modprobe: -c: not a minor: %s\n", text);
        return false;
    }
    options->minors[options->count++] = (unsigned)minor;
    return true;
}

/* Returns -1 to go on, else the exit status. */
static int read_options(int argc, char **argv, struct options *options) {
    static const struct option names[] = {
        {"create-nvidia-device-file", required_argument, NULL, 'c'},
        {"unified-memory", no_argument, NULL, 'u'},
        {"modeset", no_argument, NULL, 'm'},
        {"help", no_argument, NULL, 'h'},
        {"version", no_argument, NULL, 'v'},
        {0}};
    for (int option; (option = getopt_long(argc, argv, "c:umhv", names, NULL)) != -1;) {
        if (option == 'c' && !read_minor(optarg, options))
            return 1;
        options->uvm |= option == 'u';
        options->modeset |= option == 'm';
        if (option == 'h')
            return fputs(usage, stdout) < 0;
        if (option == 'v')
            return printf("nvidia-modprobe:  version %s (simulated)\n", SIMGPU_DRIVER) < 0;
        if (option == '?') {
            fputs(usage, stderr);
            return 1;
        }
    }
    return -1;
}

static bool make_nodes(const struct options *options) {
    bool ok = true;
    for (unsigned i = 0; i < options->count; i++) {
        char name[32];
        snprintf(name, sizeof name, "nvidia%u", options->minors[i]);
        if (options->minors[i] != SIM_MINOR_CONTROL)
            ok &= make_node(name, SIM_MAJOR, options->minors[i]);
        ok &= make_node("nvidiactl", SIM_MAJOR, SIM_MINOR_CONTROL);
    }
    if (options->uvm)
        ok &= make_node("nvidia-uvm", SIM_MAJOR_UVM, 0) &&
              make_node("nvidia-uvm-tools", SIM_MAJOR_UVM, 1);
    if (options->modeset)
        ok &= make_node("nvidia-modeset", SIM_MAJOR, 254);
    return ok;
}

int main(int argc, char **argv) {
    struct options options = {0};
    int status = read_options(argc, argv, &options);
    if (status >= 0)
        return status;
    if (!init_state(false))
        return 1;
    const struct sim_state *state = sim_state_map();
    if (!state) {
        perror(sim_state_path());
        return 1;
    }
    bool ok = make_nodes(&options);
    if (!getenv("SIMGPU_DEV")) /* a test's own folder is no machine */
        ok &= make_proc(state);
    return ok ? 0 : 1;
}
