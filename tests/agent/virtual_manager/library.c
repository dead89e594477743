/* The original's library as far as its manager sees it (tkestack/vcuda-controller, src/loader.c and
 * src/register.c): it looks for its configuration, forks a client that registers, and reads the two
 * files. The client is in here instead of a program of its own; its connection preface, settings
 * and header block are those of gpu-client's gRPC, recorded by record.go (PREAMBLE, hexadecimal).
 *
 * library FOLDER PREAMBLE POD_UID CONTAINER_ID CONTAINER CORES MEMORY_BYTES SOFT_LIMIT MAJOR MINOR
 *
 * FOLDER stands for /etc/vcuda. SOFT_LIMIT -1: none. It prints its own PID and the client's, waits
 * for a line, and prints "ok" once everything is as the arguments say. Exit 255: the client failed,
 * which ends a CUDA program.
 */
#include <fcntl.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#define MOST_PIDS 1024
#define REFUSED 255
#define PREFACE 33 /* bytes of the connection preface and the client's settings */
#define HEADERS 1  /* types of frames (RFC 9113, 6) */
#define RST_STREAM 3
#define SETTINGS 4
#define GOAWAY 7

struct version {
    int major;
    int minor;
};

struct resource_data {
    char pod_uid[48];
    int limit;
    char occupied[4044];
    char container_name[4096];
    char bus_id[16];
    uint64_t gpu_memory;
    int utilization;
    int hard_limit;
    struct version driver_version;
    int enable;
} __attribute__((packed, aligned(8)));

_Static_assert(sizeof(struct resource_data) == 8240, "the size that the library takes");
_Static_assert(offsetof(struct resource_data, gpu_memory) == 8208, "its layout");

static void fail(const char *what) {
    perror(what);
    exit(1);
}

static size_t put_field(unsigned char *to, int number, const char *text) {
    size_t length = strlen(text);

    if (length == 0)
        return 0;
    to[0] = (unsigned char)(number << 3 | 2);
    to[1] = (unsigned char)length;
    memcpy(to + 2, text, length);
    return length + 2;
}

static size_t put_frame(unsigned char *to, size_t length, int type, int flags, int stream) {
    unsigned char head[9] = {0,
                             (unsigned char)(length >> 8),
                             (unsigned char)length,
                             (unsigned char)type,
                             (unsigned char)flags,
                             0,
                             0,
                             0,
                             (unsigned char)stream};

    memcpy(to, head, sizeof(head));
    return sizeof(head);
}

static void send_all(int connection, const unsigned char *from, size_t length) {
    while (length > 0) {
        ssize_t sent = write(connection, from, length);

        if (sent <= 0)
            fail("write");
        from += sent;
        length -= (size_t)sent;
    }
}

static void receive(int connection, unsigned char *to, size_t length) {
    while (length > 0) {
        ssize_t got = read(connection, to, length);

        if (got <= 0)
            exit(REFUSED);
        to += got;
        length -= (size_t)got;
    }
}

static int has_status_0(const unsigned char *block, size_t length) {
    static const char status[] = "grpc-status\0010";

    for (size_t at = 0; at + sizeof(status) - 1 <= length; at++)
        if (memcmp(block + at, status, sizeof(status) - 1) == 0)
            return 1;
    return 0;
}

/* Receive a frame; return its length. */
static size_t next(int connection, unsigned char *head, unsigned char *payload, size_t most) {
    size_t length;

    receive(connection, head, 9);
    length = (size_t)head[0] << 16 | (size_t)head[1] << 8 | head[2];
    if (length > most)
        exit(REFUSED);
    receive(connection, payload, length);
    return length;
}

static size_t unhex(unsigned char *to, size_t most, const char *from) {
    size_t length = 0;

    for (; length < most && sscanf(from, "%2hhx", to + length) == 1; from += 2)
        length++;
    return length;
}

/* Make the one call; return the status with which gpu-client would end. */
static int call(const char *preamble, const char *uid, const char *name, const char *id) {
    struct sockaddr_un address = {.sun_family = AF_UNIX, .sun_path = "vcuda.sock"};
    unsigned char recorded[4096], message[512], data[1024], head[9], payload[16384];
    int connection = socket(AF_UNIX, SOCK_STREAM, 0);
    size_t length, size = 5;
    size_t known = unhex(recorded, sizeof(recorded), preamble);

    /* As gpu-client, which dials until it is connected: where nothing listens, it waits. */
    while (connect(connection, (struct sockaddr *)&address, sizeof(address)) != 0)
        usleep(20000);
    size += put_field(message + size, 2, uid);
    size += put_field(message + size, 3, name);
    size += put_field(message + size, 4, id);
    memset(message, 0, 5);
    message[4] = (unsigned char)(size - 5);
    length = put_frame(data, size, 0, 1, 1);
    memcpy(data + length, message, size);
    send_all(connection, recorded, PREFACE);
    do /* the rest begins with the acknowledgement of the server's settings */
        next(connection, head, payload, sizeof(payload));
    while (head[3] != SETTINGS);
    send_all(connection, recorded + PREFACE, known - PREFACE);
    send_all(connection, data, length + size);
    for (;;) {
        length = next(connection, head, payload, sizeof(payload));
        if (head[3] == HEADERS && head[4] & 1) /* trailers */
            return has_status_0(payload, length) ? 0 : REFUSED;
        if (head[3] == RST_STREAM || head[3] == GOAWAY)
            return REFUSED;
    }
}

static int compare(const void *one, const void *other) {
    int first = *(const int *)one, second = *(const int *)other;

    return (first > second) - (first < second);
}

static void check_config(const char *path, char **expected) {
    struct resource_data found, wanted;
    int file = open(path, O_RDONLY), soft = atoi(expected[5]);
    char beyond;

    memset(&wanted, 0, sizeof(wanted));
    strcpy(wanted.pod_uid, expected[0]);
    strcpy(wanted.container_name, expected[2]);
    wanted.utilization = atoi(expected[3]);
    wanted.gpu_memory = strtoull(expected[4], NULL, 10);
    wanted.limit = soft == -1 ? 0 : soft;
    wanted.hard_limit = soft == -1;
    wanted.driver_version.major = atoi(expected[6]);
    wanted.driver_version.minor = atoi(expected[7]);
    wanted.enable = wanted.utilization < 100;
    if (read(file, &found, sizeof(found)) != sizeof(found) || read(file, &beyond, 1) != 0)
        fail(path);
    for (size_t at = 0; at < sizeof(found); at++)
        if (((unsigned char *)&found)[at] != ((unsigned char *)&wanted)[at]) {
            printf("%s differs at byte %zu\n", path, at);
            exit(1);
        }
}

static void check_pids(const char *path, int wanted) {
    int pids[MOST_PIDS], file = open(path, O_RDONLY);
    ssize_t size = read(file, pids, sizeof(pids));

    if (size < 0)
        fail(path);
    if (bsearch(&wanted, pids, (size_t)size / sizeof(int), sizeof(int), compare) == NULL) {
        printf("%s lacks %d\n", path, wanted);
        exit(1);
    }
}

int main(int count, char **arguments) {
    char path[512], line[16];
    const char *uid = arguments[3], *id = arguments[4], *name = arguments[5];
    int start[2], status, is_custom;
    pid_t client;

    if (count != 11 || pipe(start) != 0 || chdir(arguments[1]) != 0)
        return 2;
    is_custom = access("vcuda.config", F_OK) != 0;
    client = fork();
    if (client == 0) {
        if (read(start[0], line, 1) != 1)
            _exit(1);
        _exit(call(arguments[2], uid, is_custom ? "" : name, is_custom ? id : ""));
    }
    printf("%d %d\n", getpid(), client);
    fflush(stdout);
    if (fgets(line, sizeof(line), stdin) == NULL || write(start[1], line, 1) != 1)
        fail("the test ended");
    if (waitpid(client, &status, 0) != client || !WIFEXITED(status) || WEXITSTATUS(status) != 0) {
        printf("rpc client exit with %d\n", WEXITSTATUS(status));
        return REFUSED;
    }
    snprintf(path, sizeof(path), "%s/vcuda.config", is_custom ? id : name);
    check_config(path, arguments + 3);
    snprintf(path, sizeof(path), "%s/pids.config", is_custom ? id : name);
    check_pids(path, getpid());
    puts("ok");
    return 0;
}
