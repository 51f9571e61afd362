/* Gives one process a wall clock of its own: LD_PRELOADed, with CLOCK naming the file that sets it. The monotonic clock stays. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

/* The time shown is real + offset + (real - from) * rate, all in ns but for rate, in parts of 10^9. Two of them, so that a reader never sees
   one half written. */
struct setting {
	int64_t from, offset, rate;
};

struct shared {
	volatile int64_t active;
	volatile struct setting settings[2];
};

static const struct shared unset;
static const struct shared *shared = &unset;

__attribute__((constructor)) static void attach(void) {
	const char *path = getenv("CLOCK");
	int file = path ? open(path, O_RDWR | O_CREAT, 0600) : -1;
	if (file < 0)
		return;
	if (ftruncate(file, sizeof *shared) == 0) {
		void *at = mmap(NULL, sizeof *shared, PROT_READ, MAP_SHARED, file, 0);
		if (at != MAP_FAILED)
			shared = at;
	}
	close(file);
}

static int64_t shown(void) {
	struct timespec t;
	syscall(SYS_clock_gettime, CLOCK_REALTIME, &t); /* not by the name that is replaced below */
	int64_t real = t.tv_sec * 1000000000LL + t.tv_nsec;
	const volatile struct setting *s = &shared->settings[shared->active & 1];
	return real + s->offset + (int64_t)((double)(real - s->from) * (double)s->rate * 1e-9);
}

int clock_gettime(clockid_t id, struct timespec *t) {
	if (id != CLOCK_REALTIME && id != CLOCK_REALTIME_COARSE)
		return syscall(SYS_clock_gettime, id, t);
	int64_t ns = shown();
	t->tv_sec = ns / 1000000000LL;
	t->tv_nsec = ns % 1000000000LL;
	return 0;
}

int gettimeofday(struct timeval *restrict t, void *restrict zone) {
	(void)zone;
	int64_t ns = shown();
	t->tv_sec = ns / 1000000000LL;
	t->tv_usec = ns % 1000000000LL / 1000;
	return 0;
}

time_t time(time_t *t) {
	time_t s = shown() / 1000000000LL;
	if (t)
		*t = s;
	return s;
}
