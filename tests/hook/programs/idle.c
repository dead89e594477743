/* A program that waits until its input ends. */
#include <stdio.h>

int main(void) {
    puts("up");
    fflush(stdout);
    getchar();
    return 0;
}
