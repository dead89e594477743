/* take-lease FILE...: asks the kernel for both kinds of lease on each file (fcntl(2), F_SETLEASE),
 * and prints a word for each: given, or refused. One that is given ends with the program.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

static const int KINDS[] = {F_RDLCK, F_WRLCK};

int main(int count, char **files) {
    for (int at = 1; at < count; at++) {
        for (int kind = 0; kind < 2; kind++) {
            int file = open(files[at], O_RDONLY);
            if (file < 0) {
                perror(files[at]);
                return 1;
            }
            puts(fcntl(file, F_SETLEASE, KINDS[kind]) ? "refused" : "given");
            close(file);
        }
    }
    return 0;
}
