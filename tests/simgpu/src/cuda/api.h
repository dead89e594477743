/* Prototypes of every entry point, from the one table. Their assembler names differ from their
 * exported ones: see entry_table.c. */
#ifndef SIMGPU_API_H
#define SIMGPU_API_H

#include "driver.h"

#define IMPLEMENTED(symbol, params) CUresult symbol params __asm__("impl_" #symbol);
#define API(name, symbol, since, params) IMPLEMENTED(symbol, params)
#define STREAM(name, symbol, since, params)                                                        \
    IMPLEMENTED(symbol, params) IMPLEMENTED(symbol##_ptsz, params)
#define DEFAULT(name, symbol, since, params)                                                       \
    IMPLEMENTED(symbol, params) IMPLEMENTED(symbol##_ptds, params)
#include "entries.def"
#undef API
#undef STREAM
#undef DEFAULT

#endif
