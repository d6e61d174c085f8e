/* Preloaded, it makes each reading of a clock a system call, as it is in a User-Mode Linux guest, so that strace counts
   it: elsewhere the C library reads clocks without the kernel (vdso(7)). */
#define _GNU_SOURCE
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

int clock_gettime(clockid_t clock, struct timespec *now)
{
	return syscall(SYS_clock_gettime, clock, now);
}
