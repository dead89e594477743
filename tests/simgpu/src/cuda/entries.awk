# From a generation's list of names (names-535.txt) to ENTRY lines for entry_table.c. The first
# file lists the symbols that this driver implements, one a line; of the others it has the name.
FNR == NR { implemented[$1] = 1; next }
/^#/ || NF != 4 { next }
{
    target = ($1 in implemented) ? "impl_" $1 : "entry_missing"
    name = $2 == "-" ? "" : $2
    mode = $4 == "any" ? "FOUND_ANY" : $4 == "legacy" ? "FOUND_LEGACY" : "FOUND_THREAD"
    printf "ENTRY(%d, %s, %s, \"%s\", %d, %s)\n", count++, $1, target, name, $3, mode
}
