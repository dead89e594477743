/* Two processes that share memory: `first` exports, `second` imports; they talk by a socket. The
 * fork is made before either uses the driver. */
#ifndef SIMGPU_TWO_PROCESSES_H
#define SIMGPU_TWO_PROCESSES_H

#include <signal.h>
#include <stdbool.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "client.h"

static inline void tell(int socket, const void *data, size_t size) {
    EXPECT(write(socket, data, size) == (ssize_t)size);
}

static inline void hear(int socket, void *data, size_t size) {
    EXPECT(read(socket, data, size) == (ssize_t)size);
}

/* "I am as far": one byte. */
static inline void signal_step(int socket) { tell(socket, "", 1); }

static inline void await_step(int socket) {
    char byte;
    hear(socket, &byte, 1);
}

static inline void send_fd(int socket, int fd) {
    char byte = 0, control[CMSG_SPACE(sizeof fd)] = {0};
    struct iovec part = {&byte, 1};
    struct msghdr message = {.msg_iov = &part,
                             .msg_iovlen = 1,
                             .msg_control = control,
                             .msg_controllen = sizeof control};
    struct cmsghdr *head = CMSG_FIRSTHDR(&message);
    *head = (struct cmsghdr){CMSG_LEN(sizeof fd), SOL_SOCKET, SCM_RIGHTS};
    memcpy(CMSG_DATA(head), &fd, sizeof fd);
    EXPECT(sendmsg(socket, &message, 0) == 1);
}

static inline int receive_fd(int socket) {
    char byte, control[CMSG_SPACE(sizeof(int))];
    int fd;
    struct iovec part = {&byte, 1};
    struct msghdr message = {.msg_iov = &part,
                             .msg_iovlen = 1,
                             .msg_control = control,
                             .msg_controllen = sizeof control};
    EXPECT(recvmsg(socket, &message, 0) == 1);
    memcpy(&fd, CMSG_DATA(CMSG_FIRSTHDR(&message)), sizeof fd);
    return fd;
}

typedef void role(int socket);

/* The parent is `second`. killed: the first one is killed when it pauses, before the second
 * begins; it says so by a pipe. */
static int about_to_pause;

static inline void pause_until_killed(int pipe) {
    signal_step(pipe);
    pause();
}

static inline void both(role *first, role *second, bool killed) {
    int sockets[2], pipes[2], status;
    EXPECT(socketpair(AF_UNIX, SOCK_STREAM, 0, sockets) == 0 && pipe(pipes) == 0);
    about_to_pause = pipes[1];
    pid_t child = fork();
    EXPECT(child >= 0);
    if (child == 0) {
        first(sockets[0]);
        exit(0);
    }
    close(pipes[1]);
    if (killed) {
        await_step(pipes[0]);
        kill(child, SIGKILL);
        EXPECT(waitpid(child, &status, 0) == child);
    }
    second(sockets[1]);
    if (!killed)
        EXPECT(waitpid(child, &status, 0) == child && status == 0);
}

static inline CUdeviceptr filled(size_t bytes, const char *text) {
    CUdeviceptr address;
    OK(cuMemAlloc_v2(&address, bytes));
    OK(cuMemcpyHtoD_v2(address, text, strlen(text) + 1));
    return address;
}

static inline void expect_text(CUdeviceptr address, const char *text) {
    char back[32] = "";
    OK(cuMemcpyDtoH_v2(back, address, strlen(text) + 1));
    EXPECT(strcmp(back, text) == 0);
}

#endif
