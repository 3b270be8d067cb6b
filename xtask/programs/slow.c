/* Small slow programs with one known cause each, and their fixed forms, for `cargo xtask explain`:
 *     slow CAUSE slow|fixed server|client|both [HOST]
 */
#include <arpa/inet.h>
#include <netinet/tcp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { PORT = 7000, SMALL = 10, LARGE = 4000000 };

static char buffer[65536];
static int is_slow;

static void nap(long ms) {
    struct timespec time = {ms / 1000, ms % 1000 * 1000000};
    nanosleep(&time, NULL);
}

static void write_all(int sock, long count) {
    while (count > 0) {
        long part = write(sock, buffer, count < (long)sizeof buffer ? count : (long)sizeof buffer);
        if (part <= 0) exit(0);
        count -= part;
    }
}

static int read_all(int sock, long count, long pause_ms) {
    while (count > 0) {
        long part = read(sock, buffer, count < (long)sizeof buffer ? count : (long)sizeof buffer);
        if (part <= 0) return 0;
        count -= part;
        if (pause_ms) nap(pause_ms);
    }
    return 1;
}

static struct sockaddr_in address(const char *host) {
    struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons(PORT)};
    inet_pton(AF_INET, host, &to.sin_addr);
    return to;
}

static void serve(const char *cause, const char *host) {
    struct sockaddr_in at = address(host);
    int listener = socket(AF_INET, SOCK_STREAM, 0), on = 1;
    setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    if (bind(listener, (struct sockaddr *)&at, sizeof at) || listen(listener, 16)) exit(1);
    for (;;) {
        int sock = accept(listener, NULL, NULL);
        int is_nagle = !strcmp(cause, "nagle-meets-delayed-ack");
        if (!is_nagle || !is_slow) setsockopt(sock, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
        while (read_all(sock, SMALL, 0)) {
            if (is_nagle) {
                write_all(sock, 20);
                write_all(sock, 1000);
            } else if (!strcmp(cause, "slow-reader")) {
                write_all(sock, LARGE);
            } else {
                if (is_slow && !strcmp(cause, "server-work")) nap(10);
                write_all(sock, 200);
            }
        }
        close(sock);
    }
}

static void ask(const char *cause, const char *host) {
    struct sockaddr_in to = address(host);
    int sock = -1, on = 1;
    for (int tries = 0; tries < 200; tries++) {
        sock = socket(AF_INET, SOCK_STREAM, 0);
        if (!connect(sock, (struct sockaddr *)&to, sizeof to)) break;
        close(sock);
        nap(10);
    }
    setsockopt(sock, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    int is_reader = !strcmp(cause, "slow-reader");
    long answer = is_reader ? LARGE : !strcmp(cause, "nagle-meets-delayed-ack") ? 1020 : 200;
    for (int number = 0; number < (is_reader ? 3 : 40); number++) {
        write_all(sock, SMALL);
        if (!read_all(sock, answer, is_reader && is_slow ? 10 : 0)) exit(1);
    }
    close(sock);
}

int main(int count, char **words) {
    if (count < 4) return 2;
    const char *host = count > 4 ? words[4] : "127.0.0.1";
    is_slow = !strcmp(words[2], "slow");
    if (!strcmp(words[3], "server")) serve(words[1], "0.0.0.0");
    if (!strcmp(words[3], "client")) return ask(words[1], host), 0;
    pid_t server = fork();
    if (server == 0) serve(words[1], host);
    ask(words[1], host);
    kill(server, SIGKILL);
    waitpid(server, NULL, 0);
    return 0;
}
