/* Asks cuGetProcAddress and cuGetProcAddress_v2 what the input says, a question a line: NAME
 * VERSION FLAGS ("-" is the empty name). Prints: result of the first and its symbol, result,
 * status and symbol of the second. "kept": the pointer was left alone, "null": set to NULL. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <string.h>

#include "client.h"

static const char *symbol_of(void *pointer, void *before) {
    Dl_info info;
    if (pointer == before)
        return "kept";
    if (!pointer)
        return "null";
    EXPECT(dladdr(pointer, &info) && info.dli_saddr == pointer); /* a symbol's very start */
    return info.dli_sname;
}

int main(void) {
    char name[128];
    int version;
    unsigned long long flags;
    while (scanf("%127s %d %llu", name, &version, &flags) == 3) {
        void *mark = name, *first = mark, *second = mark;
        CUdriverProcAddressQueryResult status = (CUdriverProcAddressQueryResult)9;
        if (strcmp(name, "-") == 0)
            name[0] = '\0';
        int rc = cuGetProcAddress(name, &first, version, flags);
        printf("%d %s ", rc, symbol_of(first, mark));
        rc = cuGetProcAddress_v2(name, &second, version, flags, &status);
        printf("%d %d %s\n", rc, (int)status, symbol_of(second, mark));
        void *third = mark;
        EXPECT(cuGetProcAddress_v2(name, &third, version, flags, NULL) == (CUresult)rc);
        EXPECT(third == second);
    }
    return 0;
}
