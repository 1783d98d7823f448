/*
 * Preloaded into a process, whose clocks then go wrong as a file says that may change at any time.
 * CLOCK_MONOTONIC_RAW is left alone, and so are the kernel's own timers.
 *
 * Nothing here allocates: an allocator may ask for the time before it can.
 */

#include <fcntl.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

enum { WALL, MONOTONIC, BOOT, HANDS };

/* How wrong a clock is: by so many nanoseconds, and so many more a second since then, by the raw one. */
struct wrong {
	int64_t by, drift, since;
};

/* The pages are written in turn; the number of the last one says which counts. */
static const struct {
	_Atomic uint64_t number;
	struct wrong pages[2][HANDS];
} *steering;

__attribute__((constructor)) static void open_steering(void)
{
	const char *path = getenv("CLOCK_STEERING");
	int file = path ? open(path, O_RDONLY | O_CLOEXEC) : -1;
	void *mapped;

	if (file < 0)
		return;
	mapped = mmap(NULL, sizeof *steering, PROT_READ, MAP_SHARED, file, 0);
	close(file);
	if (mapped != MAP_FAILED)
		steering = mapped;
}

static struct wrong how_wrong(int hand)
{
	struct wrong wrong;
	uint64_t number;

	do {
		number = atomic_load(&steering->number);
		wrong = steering->pages[number % 2][hand];
		atomic_thread_fence(memory_order_acquire);
	} while (atomic_load(&steering->number) != number);
	return wrong;
}

static int64_t raw(void)
{
	struct timespec now;

	syscall(SYS_clock_gettime, CLOCK_MONOTONIC_RAW, &now);
	return now.tv_sec * INT64_C(1000000000) + now.tv_nsec;
}

static int hand_of(clockid_t clock)
{
	switch (clock) {
	case CLOCK_REALTIME:
	case CLOCK_REALTIME_COARSE:
		return WALL;
	case CLOCK_MONOTONIC:
	case CLOCK_MONOTONIC_COARSE:
		return MONOTONIC;
	case CLOCK_BOOTTIME:
		return BOOT;
	default:
		return HANDS;
	}
}

int clock_gettime(clockid_t clock, struct timespec *time)
{
	int result = syscall(SYS_clock_gettime, clock, time), hand = hand_of(clock);
	struct wrong wrong;
	int64_t nanos;

	if (result != 0 || !steering || hand == HANDS)
		return result;
	wrong = how_wrong(hand);
	nanos = time->tv_nsec + wrong.by;
	if (wrong.drift)
		nanos += (raw() - wrong.since) / 1000 * wrong.drift / 1000000;
	time->tv_sec += nanos / 1000000000;
	time->tv_nsec = nanos % 1000000000;
	if (time->tv_nsec < 0) {
		time->tv_sec--;
		time->tv_nsec += 1000000000;
	}
	return 0;
}

int gettimeofday(struct timeval *restrict now, void *restrict zone)
{
	struct timespec time;

	(void)zone;
	clock_gettime(CLOCK_REALTIME, &time);
	now->tv_sec = time.tv_sec;
	now->tv_usec = time.tv_nsec / 1000;
	return 0;
}

time_t time(time_t *now)
{
	struct timespec time;

	clock_gettime(CLOCK_REALTIME, &time);
	if (now)
		*now = time.tv_sec;
	return time.tv_sec;
}
