/*
 * A program without the hook that maps the files named by its arguments, as a hooked one does.
 * With "headless" as the first argument its main thread ends, and another one goes on.
 * Prints "up" and ends with its input.
 */
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

static void *stay(void *nothing) {
    (void)nothing;
    puts("up");
    fflush(stdout);
    getchar();
    exit(0);
}

int main(int argc, char **argv) {
    pthread_t thread;
    if (argc > 1 && strcmp(argv[1], "headless") == 0) {
        pthread_create(&thread, NULL, stay, NULL);
        pthread_exit(NULL);
    }
    for (int i = 1; i < argc; i++) {
        if (mmap(NULL, 4096, PROT_READ, MAP_SHARED, open(argv[i], O_RDONLY), 0) == MAP_FAILED) {
            perror(argv[i]);
            return 1;
        }
    }
    stay(NULL);
}
