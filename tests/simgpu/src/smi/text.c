/* Small conversions that the forms share. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "smi.h"

bool parse_number(const char *text, unsigned least, unsigned most, unsigned *number) {
    char *end;
    if (*text < '0' || *text > '9') /* strtoul takes signs and blanks */
        return false;
    errno = 0;
    unsigned long value = strtoul(text, &end, 10);
    if (errno || *end || value < least || value > most)
        return false;
    *number = (unsigned)value;
    return true;
}

void clock_text(char *text) {
    time_t now = time(NULL);
    struct tm local;
    if (strftime(text, TEXT_CHARS, "%a %b %e %H:%M:%S %Y", localtime_r(&now, &local)) == 0)
        *text = '\0';
}

void cuda_text(char *text) {
    int version;
    if (ASK(nvmlSystemGetCudaDriverVersion_v2, &version) == NVML_SUCCESS)
        snprintf(text, TEXT_CHARS, "%d.%d", version / 1000, version % 1000 / 10);
    else
        snprintf(text, TEXT_CHARS, "N/A");
}

void sleep_ms(unsigned ms) {
    struct timespec left = {ms / 1000, ms % 1000 * 1000000L};
    while (nanosleep(&left, &left) != 0 && errno == EINTR)
        ;
}
