/* A lock, and a condition that threads wait for, of POSIX or Windows. Both are static objects with
   an initial value, so nothing makes or frees them. */
#ifndef LOCK_H
#define LOCK_H

#ifdef _WIN32
#include <windows.h>
typedef SRWLOCK lock;
typedef CONDITION_VARIABLE condition;
#define LOCK_INIT SRWLOCK_INIT
#define CONDITION_INIT CONDITION_VARIABLE_INIT
#define LOCK(l) AcquireSRWLockExclusive(l)
#define UNLOCK(l) ReleaseSRWLockExclusive(l)
#define WAIT(c, l) SleepConditionVariableSRW(c, l, INFINITE, 0)
#define WAKE(c) WakeConditionVariable(c)
#define WAKE_ALL(c) WakeAllConditionVariable(c)
#else
#include <pthread.h>
typedef pthread_mutex_t lock;
typedef pthread_cond_t condition;
#define LOCK_INIT PTHREAD_MUTEX_INITIALIZER
#define CONDITION_INIT PTHREAD_COND_INITIALIZER
#define LOCK(l) pthread_mutex_lock(l)
#define UNLOCK(l) pthread_mutex_unlock(l)
#define WAIT(c, l) pthread_cond_wait(c, l)
#define WAKE(c) pthread_cond_signal(c)
#define WAKE_ALL(c) pthread_cond_broadcast(c)
#endif

#endif
