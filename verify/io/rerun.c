#include "verify/io/rerun.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

/* A shell that has become the command, which writes to `to`; 0: none was started. */
static pid_t start(const char *line, int to)
{
    char *text = xasprintf("exec %s", line);
    char *argv[] = {"sh", "-c", text, NULL};
    posix_spawn_file_actions_t files;
    pid_t child = 0;
    CK(posix_spawn_file_actions_init(&files) == 0);
    bool good = posix_spawn_file_actions_addopen(&files, STDIN_FILENO, "/dev/null", O_RDONLY, 0) == 0 &&
                posix_spawn_file_actions_addopen(&files, STDERR_FILENO, "/dev/null", O_WRONLY, 0) == 0 &&
                posix_spawn_file_actions_adddup2(&files, to, STDOUT_FILENO) == 0 &&
                posix_spawn(&child, "/bin/sh", &files, NULL, argv, environ) == 0;
    posix_spawn_file_actions_destroy(&files);
    free(text);
    return good ? child : 0;
}

/* All that comes until the end, or until then; false if that was before. */
static bool take(int from, double until, char *text, size_t size)
{
    char bytes[4096];
    size_t n = 0;
    for (ssize_t got = 1; got > 0;) {
        struct pollfd on = {from, POLLIN, 0};
        double left = until - now_s();
        if (left <= 0 || poll(&on, 1, (int)(1e3 * left) + 1) <= 0)
            return false;
        got = read(from, bytes, sizeof bytes);
        for (ssize_t i = 0; i < got && n + 1 < size; i++)
            text[n++] = bytes[i];
        text[n] = 0;
    }
    return true;
}

int rerun(const char *line, double seconds, char *text, size_t size)
{
    int end[2], status;
    text[0] = 0;
    if (pipe2(end, O_CLOEXEC) != 0)
        return -1;
    pid_t child = start(line, end[1]);
    close(end[1]);
    bool ended = child && take(end[0], now_s() + seconds, text, size);
    close(end[0]);
    if (child && !ended)
        kill(child, SIGKILL);
    return child && waitpid(child, &status, 0) == child && ended && WIFEXITED(status) ? WEXITSTATUS(status)
                                                                                      : -1;
}
