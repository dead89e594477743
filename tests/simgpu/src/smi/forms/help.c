/* --help and --version. */
#include <stdio.h>
#include <string.h>

#include "fields.h"

int help(void) {
    puts("nvidia-smi of simgpu: the part of NVIDIA's tool that tests and the demo use\n"
         "\n"
         "nvidia-smi [OPTION]...\n"
         "  without options              the table of cards and processes\n"
         "  -L, --list-gpus              one line a card\n"
         "  -q, --query                  everything about the cards\n"
         "  -d, --display=TYPE,...       with -q: MEMORY, UTILIZATION, ECC, TEMPERATURE, POWER,\n"
         "                               CLOCK, COMPUTE, PIDS, PERFORMANCE\n"
         "  --query-gpu=FIELD,...        see --help-query-gpu\n"
         "  --query-compute-apps=FIELD,...   see --help-query-compute-apps\n"
         "  --format=csv[,noheader][,nounits]   how the queries answer\n"
         "  -i, --id=ID,...              index, UUID or PCI bus ID; default: all cards\n"
         "  -l, --loop=SECONDS           again and again (default: 5), until killed\n"
         "  -lms, --loop-ms=MILLISECONDS\n"
         "  --version                    of the tool, NVML, the driver and CUDA\n"
         "  -h, --help                   this text\n"
         "nvidia-smi pmon -h             processes\n"
         "nvidia-smi topo -h             topology");
    return 0;
}

int form_version(const struct options *options, const struct gpus *gpus) {
    char driver[TEXT_CHARS], nvml_version[TEXT_CHARS], cuda[TEXT_CHARS];
    (void)options, (void)gpus;
    field_answer(get_driver_version(NULL, driver), driver);
    field_answer(ASK(nvmlSystemGetNVMLVersion, nvml_version, TEXT_CHARS), nvml_version);
    cuda_text(cuda);
    /* The tool belongs to the driver, so both have one version; NVML puts its own 12. in front. */
    const char *dot = strchr(nvml_version, '.');
    printf("NVIDIA-SMI version  : %s\nNVML version        : %s\nDRIVER version      : %s\n"
           "CUDA Version        : %s\n",
           driver, dot ? dot + 1 : nvml_version, driver, cuda);
    return 0;
}
