/* Preloaded into a process, moves its wall clock by the seconds that the file $CLOCK_FILE holds, whenever it asks. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/time.h>
#include <time.h>

static long long moved(void)
{
    long long seconds = 0;
    const char *path = getenv("CLOCK_FILE");
    FILE *file = path ? fopen(path, "r") : NULL;
    if (file) {
        if (fscanf(file, "%lld", &seconds) != 1)
            seconds = 0;
        fclose(file);
    }
    return seconds;
}

int clock_gettime(clockid_t clock, struct timespec *now)
{
    static int (*real)(clockid_t, struct timespec *);
    if (!real)
        real = (int (*)(clockid_t, struct timespec *))dlsym(RTLD_NEXT, "clock_gettime");
    int result = real(clock, now);
    if (result == 0 && (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE))
        now->tv_sec += moved();
    return result;
}

int gettimeofday(struct timeval *now, void *zone)
{
    struct timespec fine;
    (void)zone;
    int result = clock_gettime(CLOCK_REALTIME, &fine);
    if (result == 0) {
        now->tv_sec = fine.tv_sec;
        now->tv_usec = fine.tv_nsec / 1000;
    }
    return result;
}

time_t time(time_t *where)
{
    struct timespec now;
    if (clock_gettime(CLOCK_REALTIME, &now) != 0)
        return (time_t)-1;
    if (where)
        *where = now.tv_sec;
    return now.tv_sec;
}
