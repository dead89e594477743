/* take-lease FILE...: asks the kernel for both kinds of lease on each file (fcntl(2), F_SETLEASE),
 * and prints a line for each: "read given", "write refused". One that is given ends with the
 * program.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

static const struct {
    int kind;
    const char *name;
} LEASES[] = {{F_RDLCK, "read"}, {F_WRLCK, "write"}};

int main(int count, char **files) {
    for (int at = 1; at < count; at++) {
        for (int lease = 0; lease < 2; lease++) {
            int file = open(files[at], O_RDONLY);
            if (file < 0) {
                perror(files[at]);
                return 1;
            }
            int refused = fcntl(file, F_SETLEASE, LEASES[lease].kind);
            printf("%s %s\n", LEASES[lease].name, refused ? "refused" : "given");
            close(file);
        }
    }
    return 0;
}
