/* Shared by --query-gpu and --query-compute-apps: lists of names and the csv format. */
#ifndef SIMGPU_SMI_CSV_H
#define SIMGPU_SMI_CSV_H

#include "smi.h"

#define COLUMNS_MAX 128

struct format {
    bool header, units;
};

/* Reads --format and the list of names, each looked up by `find`. Returns the number of columns, or
 * -1 after a message that names the fault. */
int csv_open(const struct options *options, const void *(*find)(const char *name),
             struct format *format, const void **columns);

/* One heading, one value; `first` has no comma before it. */
void csv_heading(bool first, const char *name, const char *unit);
void csv_value(bool first, bool known, const char *text, const char *unit);

#endif
