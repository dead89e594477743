/* Prototypes of every entry point, from the one table. */
#ifndef SIMGPU_API_H
#define SIMGPU_API_H

#include "driver.h"

#define API(name, symbol, since, params) CUresult symbol params;
#define STREAM(name, symbol, since, params) CUresult symbol params, symbol##_ptsz params;
#define DEFAULT(name, symbol, since, params) CUresult symbol params, symbol##_ptds params;
#include "entries.def"
#undef API
#undef STREAM
#undef DEFAULT

#endif
