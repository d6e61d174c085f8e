/*
 * Two ways to stay in user space for long, for tests of the exact clock.
 *
 * loops wait      five times: loop on a word until another thread, after some work, has set it
 * loops compute   make a thread, then compute for some 0.2 s without a system call
 *
 * Prints the nanoseconds of virtual time that this took, and whether the other thread ran before the computation's end.
 */
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static volatile int done;
static volatile unsigned long sum;

static void *work(void *rounds)
{
	for (long i = 0; i < *(long *)rounds; i++)
		sum += i;
	getppid();
	done = 1;
	return NULL;
}

static int wait_for_it(long rounds)
{
	for (int i = 0; i < 5; i++) {
		pthread_t worker;

		done = 0;
		if (pthread_create(&worker, NULL, work, &rounds))
			return -1;
		while (!done)
			;
		pthread_join(worker, NULL);
	}
	return done;
}

static int compute(long rounds)
{
	pthread_t worker;
	long none = 0;
	int ran_before_the_end;
	unsigned long mixed = 1;

	if (pthread_create(&worker, NULL, work, &none))
		return -1;
	for (long i = 0; i < rounds; i++) {
		mixed = mixed * 6364136223846793005UL + i;
		__asm__ volatile("" : "+r"(mixed));
	}
	ran_before_the_end = done;
	pthread_join(worker, NULL);
	return ran_before_the_end;
}

static long long now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec * 1000000000LL + now.tv_nsec;
}

int main(int argc, char **argv)
{
	int waits = argc > 1 && !strcmp(argv[1], "wait");
	long long begun_ns = now_ns();
	int result = waits ? wait_for_it(1000000) : compute(200000000);

	printf("%lld %d\n", now_ns() - begun_ns, result);
	return result < 0;
}
