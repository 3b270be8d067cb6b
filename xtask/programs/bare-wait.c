/* Round trips of 4 bytes over TCP between two processes that wait by block, poll, epoll or spin-then-block, as plain as
 * possible, for `cargo xtask fidelity --waits`:
 *     bare-wait --transport tcp --waiting WAITING --cpus CLIENT,SERVER --count COUNT --warmup COUNT
 * Like `bare-loop`, the client reads the clock before it sends and after it has received, and the server twice in between.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <netinet/in.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum waiting { BLOCK, POLL, EPOLL, SPIN_THEN_BLOCK, WAITINGS };
static const char *const NAMES[] = {"block", "poll", "epoll", "spin-then-block"};

/* As in Hairpin. */
enum { SPIN_NS = 50000, ATTEMPTS_PER_CLOCK_READ = 8 };

/* Time limit of both processes (SIGALRM); longer than any measurement. */
enum { MAX_S = 120 };

static enum waiting waiting;
static int set;

static uint64_t ns_of(clockid_t clock) {
    struct timespec time;
    clock_gettime(clock, &time);
    return (uint64_t)time.tv_sec * 1000000000 + (uint64_t)time.tv_nsec;
}

static uint64_t ticks(void) {
#ifdef __x86_64__
    return __builtin_ia32_rdtsc();
#else
    return ns_of(CLOCK_MONOTONIC);
#endif
}

static void check(int is_fine, const char *call) {
    if (is_fine) return;
    perror(call);
    exit(2);
}

static int attempt(int sock, uint32_t *message, int flags) {
    long received = recv(sock, message, sizeof *message, flags);
    check(received == sizeof *message || (received < 0 && errno == EAGAIN), "recv");
    return received > 0;
}

static uint32_t take(int sock) {
    struct pollfd polled = {.fd = sock, .events = POLLIN};
    struct epoll_event event;
    uint32_t message;
    if (waiting == SPIN_THEN_BLOCK) {
        uint64_t since = ns_of(CLOCK_MONOTONIC);
        do {
            for (int left = ATTEMPTS_PER_CLOCK_READ; left > 0; left--)
                if (attempt(sock, &message, MSG_DONTWAIT)) return message;
        } while (ns_of(CLOCK_MONOTONIC) - since < SPIN_NS);
    }
    do {
        /* They end without an event after a signal. */
        if (waiting == POLL) check(poll(&polled, 1, -1) == 1 || errno == EINTR, "poll");
        if (waiting == EPOLL) check(epoll_wait(set, &event, 1, -1) == 1 || errno == EINTR, "epoll_wait");
    } while (!attempt(sock, &message, waiting == POLL || waiting == EPOLL ? MSG_DONTWAIT : 0));
    return message;
}

static void give(int sock, uint32_t message) {
    check(send(sock, &message, sizeof message, MSG_NOSIGNAL) == sizeof message, "send");
}

/* Prepares one end in its process. */
static void begin(int sock, int cpu) {
    cpu_set_t cpus;
    CPU_ZERO(&cpus);
    CPU_SET(cpu, &cpus);
    check(sched_setaffinity(0, sizeof cpus, &cpus) == 0, "sched_setaffinity");
    alarm(MAX_S);
    struct epoll_event event = {.events = EPOLLIN};
    set = epoll_create1(0);
    check(epoll_ctl(set, EPOLL_CTL_ADD, sock, &event) == 0, "epoll_ctl");
}

static void serve(int sock) {
    static volatile uint64_t held;
    for (;;) {
        uint32_t message = take(sock);
        uint64_t since = ticks();
        held = held + (ticks() - since);
        give(sock, message);
    }
}

static double ns_per_tick(void) {
    uint64_t ns = ns_of(CLOCK_MONOTONIC_RAW), from = ticks(), now;
    while ((now = ns_of(CLOCK_MONOTONIC_RAW)) < ns + 50000000) {}
    return (double)(now - ns) / (double)(ticks() - from);
}

static int in_order(const void *one, const void *other) {
    uint64_t a = *(const uint64_t *)one, b = *(const uint64_t *)other;
    return (a > b) - (a < b);
}

int main(int count, char **words) {
    long cpus[2] = {0, 0}, rounds = 4000, warmup = 500;
    for (int at = 1; at + 1 < count; at += 2) {
        char *value = words[at + 1];
        if (!strcmp(words[at], "--count")) rounds = atol(value);
        if (!strcmp(words[at], "--warmup")) warmup = atol(value);
        if (!strcmp(words[at], "--cpus")) sscanf(value, "%ld,%ld", &cpus[0], &cpus[1]);
        if (!strcmp(words[at], "--waiting"))
            while (waiting < WAITINGS && strcmp(NAMES[waiting], value)) waiting++;
    }
    check(waiting < WAITINGS && rounds > 0, "the command line");
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};
    socklen_t length = sizeof at;
    int listener = socket(AF_INET, SOCK_STREAM, 0), client = socket(AF_INET, SOCK_STREAM, 0);
    check(bind(listener, (struct sockaddr *)&at, sizeof at) == 0 && listen(listener, 1) == 0, "listen");
    check(getsockname(listener, (struct sockaddr *)&at, &length) == 0, "getsockname");
    check(connect(client, (struct sockaddr *)&at, sizeof at) == 0, "connect");
    int server = accept(listener, NULL, NULL);
    pid_t child = fork();
    check(server >= 0 && child >= 0, "fork");
    if (child == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        begin(server, (int)cpus[1]);
        serve(server);
    }
    begin(client, (int)cpus[0]);
    /* Ones, since pages of zeroes would be allocated in the loop. */
    uint64_t *times = malloc((size_t)rounds * sizeof *times);
    check(times != NULL, "malloc");
    memset(times, 1, (size_t)rounds * sizeof *times);
    for (long number = -warmup; number < rounds; number++) {
        uint64_t sent = ticks();
        give(client, (uint32_t)number);
        uint32_t answer = take(client);
        uint64_t received = ticks();
        check(answer == (uint32_t)number, "the answer");
        if (number >= 0) times[number] = received - sent;
    }
    kill(child, SIGKILL);
    qsort(times, (size_t)rounds, sizeof *times, in_order);
    printf("{\"p50_ns\": %.1f}\n", (double)times[(rounds + 1) / 2 - 1] * ns_per_tick());
}
