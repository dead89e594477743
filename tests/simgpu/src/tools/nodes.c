#include "nodes.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#define STAND_INS "/run/simgpu"

static bool complain(const char *what) {
    fprintf(stderr, "nvidia-modprobe: %s: %s\n", what, strerror(errno));
    return false;
}

static bool is_right(const char *path, mode_t mode, dev_t device) {
    struct stat info;
    return stat(path, &info) == 0 && (info.st_mode & S_IFMT) == (mode & S_IFMT) &&
           (S_ISREG(mode) || info.st_rdev == device) && (info.st_mode & 0777) == 0666;
}

bool make_node(const char *name, unsigned major, unsigned minor) {
    char path[512];
    mode_t mode = (getenv("SIMGPU_DEV") ? S_IFREG : S_IFCHR) | 0666;
    dev_t device = makedev(major, minor);
    snprintf(path, sizeof path, "%s/%s", sim_dev_dir(), name);
    if (is_right(path, mode, device))
        return true;
    if (unlink(path) != 0 && errno != ENOENT)
        return complain(path);
    if (mknod(path, mode, S_ISREG(mode) ? 0 : device) != 0 || chmod(path, 0666) != 0)
        return complain(path);
    return true;
}

static bool write_text(const char *path, const char *text) {
    FILE *file = fopen(path, "we");
    if (!file)
        return complain(path);
    bool ok = fputs(text, file) >= 0;
    return fclose(file) == 0 && ok ? true : complain(path);
}

static bool make_folder(const char *path) {
    return mkdir(path, 0755) == 0 || errno == EEXIST ? true : complain(path);
}

static bool write_card(const struct sim_card *card) {
    char path[256], text[512];
    snprintf(path, sizeof path, STAND_INS "/driver/nvidia/gpus/%s", card->bus);
    if (!make_folder(path))
        return false;
    strncat(path, "/information", sizeof path - strlen(path) - 1);
    snprintf(text, sizeof text,
             "Model: \t\t %s\nIRQ:   \t\t %u\nGPU UUID: \t %s\nVideo BIOS: \t 92.00.45.00.03\n"
             "Bus Type: \t PCIe\nDMA Size: \t 47 bits\nDMA Mask: \t 0x7fffffffffff\n"
             "Bus Location: \t %s\nDevice Minor: \t %u\nGPU Excluded:\t No\n",
             card->model, 64 + card->minor, card->uuid, card->bus, card->minor);
    return write_text(path, text);
}

static bool write_driver(const struct sim_state *state) {
    char text[256];
    snprintf(text, sizeof text,
             "NVRM version: NVIDIA UNIX x86_64 Kernel Module  %s  simulated\n"
             "GCC version:  gcc version %s\n",
             state->driver, __VERSION__);
    bool ok = make_folder(STAND_INS) && make_folder(STAND_INS "/driver") &&
              make_folder(STAND_INS "/driver/nvidia") &&
              make_folder(STAND_INS "/driver/nvidia/gpus") &&
              write_text(STAND_INS "/driver/nvidia/version", text) &&
              write_text(STAND_INS "/driver/nvidia/params",
                         "DeviceFileUID: 0\nDeviceFileGID: 0\nDeviceFileMode: 438\n"
                         "ModifyDeviceFiles: 1\n");
    for (uint32_t card = 0; ok && card < state->card_count; card++)
        ok = write_card(&state->cards[card]);
    return ok;
}

/* The kernel's own list with the modules' lines in the character section, as they would come. */
static bool write_devices(void) {
    FILE *from = fopen("/proc/devices", "re");
    FILE *to = fopen(STAND_INS "/devices", "we");
    char line[256];
    while (from && to && fgets(line, sizeof line, from)) {
        if (strstr(line, "nvidia"))
            continue;
        fputs(line, to);
        if (strncmp(line, "Character devices:", 18) == 0)
            fprintf(to, "%d nvidia\n%d nvidiactl\n%d nvidia-uvm\n", SIM_MAJOR, SIM_MAJOR,
                    SIM_MAJOR_UVM);
    }
    bool ok = from && to;
    if (from)
        fclose(from);
    if (to && fclose(to) != 0)
        ok = false;
    return ok ? true : complain(STAND_INS "/devices");
}

static bool cover(const char *source, const char *target) {
    return mount(source, target, NULL, MS_BIND, NULL) == 0 ? true : complain(target);
}

/* A second run renews the files of the first behind its mounts. */
bool make_proc(const struct sim_state *state) {
    if (!write_driver(state))
        return false;
    if (access("/proc/driver/nvidia/version", F_OK) == 0)
        return true;
    return write_devices() && cover(STAND_INS "/driver", "/proc/driver") &&
           cover(STAND_INS "/devices", "/proc/devices");
}
