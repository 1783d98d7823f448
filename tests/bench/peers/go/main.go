// Locks of Go libraries, driven by the same orders as the children of the benchmark: see src/child.rs, and
// src/load.rs for the form of plans and outcomes. Any failure panics.
package main

import (
	"bufio"
	"context"
	"fmt"
	"math"
	"os"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/bsm/redislock"
	"github.com/go-redsync/redsync/v4"
	"github.com/go-redsync/redsync/v4/redis/goredis/v9"
	"github.com/redis/go-redis/v9"
)

const (
	ttl      = 30 * time.Second
	forever  = time.Hour
	interval = 10 * time.Millisecond
)

// acquire waits for a lock, and returns the function that releases it.
type acquire func(key string) (release func())

func main() {
	switch os.Args[1] {
	case "drive":
		contender, clients, url := os.Args[2], os.Args[3], os.Args[5]
		if clients != "1" {
			panic("a process has one client")
		}
		lock := connect(contender, url)
		serve(func(order string) string { return drive(lock, readPlan(order)) })
	case "pass":
		url, contender := os.Args[2], os.Args[3]
		lock := connect(contender, url)
		serve(func(order string) string { return alternate(lock, order) })
	default:
		panic("unknown kind of work " + os.Args[1])
	}
}

func serve(answer func(string) string) {
	fmt.Println("ready")
	for orders := bufio.NewScanner(os.Stdin); orders.Scan(); {
		fmt.Println(answer(orders.Text()))
	}
}

func connect(contender, url string) acquire {
	options, err := redis.ParseURL(url)
	check(err)
	client := redis.NewClient(options)
	check(client.Ping(context.Background()).Err())
	name, tuned := strings.CutSuffix(contender, "@10ms")
	switch name {
	case "redsync":
		return redsyncLocks(client, tuned)
	case "redislock":
		return redislockLocks(client, tuned)
	}
	panic("unknown contender " + contender)
}

// redsyncLocks retries after a random 50 to 250 ms by default, 32 times.
func redsyncLocks(client *redis.Client, tuned bool) acquire {
	locks := redsync.New(goredis.NewPool(client))
	options := []redsync.Option{redsync.WithExpiry(ttl), redsync.WithTries(math.MaxInt)}
	if tuned {
		options = append(options, redsync.WithRetryDelay(interval))
	}
	return func(key string) func() {
		mutex := locks.NewMutex(key, options...)
		check(mutex.Lock())
		return func() {
			released, err := mutex.Unlock()
			check(err)
			if !released {
				panic("redsync: not released")
			}
		}
	}
}

// redislockLocks does not wait by default.
func redislockLocks(client *redis.Client, tuned bool) acquire {
	locks := redislock.New(client)
	options := &redislock.Options{}
	if tuned {
		options.RetryStrategy = redislock.LinearBackoff(interval)
	}
	return func(key string) func() {
		// Without a deadline it waits for the ttl at most.
		ctx, cancel := context.WithTimeout(context.Background(), forever)
		defer cancel()
		lock, err := locks.Obtain(ctx, key, ttl, options)
		check(err)
		return func() { check(lock.Release(context.Background())) }
	}
}

type plan struct {
	tasks  int
	same   bool
	body   time.Duration
	time   time.Duration
	locks  int64
	turn   string
	limits bool
}

func readPlan(order string) plan {
	words := strings.Split(order, " ")
	plan := plan{
		tasks: int(number(words[0])),
		same:  words[1] == "same",
		body:  time.Duration(number(words[2])),
		time:  forever,
		locks: math.MaxInt64,
		turn:  words[5],
	}
	plan.limits = words[3] == "time"
	if plan.limits {
		plan.time = time.Duration(number(words[4]))
	} else {
		plan.locks = number(words[4])
	}
	return plan
}

func (plan plan) key(task int) string {
	if plan.same {
		return "bench-" + plan.turn
	}
	return fmt.Sprintf("bench-%s-%d", plan.turn, task)
}

type tally struct {
	costs, waits []time.Duration
}

// drive runs a plan. A task that still waits when the time is up acquires the lock, which does not count.
func drive(lock acquire, plan plan) string {
	start := time.Now()
	tallies := make([]tally, plan.tasks)
	var tasks sync.WaitGroup
	for task := range tallies {
		tasks.Add(1)
		go func() {
			defer tasks.Done()
			work(lock, plan, plan.key(task), start, &tallies[task])
		}()
	}
	tasks.Wait()
	elapsed := time.Since(start)
	if plan.limits {
		elapsed = plan.time
	}
	var all tally
	for _, one := range tallies {
		all.costs = append(all.costs, one.costs...)
		all.waits = append(all.waits, one.waits...)
	}
	began := start.UnixNano()
	return fmt.Sprintf("%d %d %d %s %s", elapsed.Nanoseconds(), began, began+elapsed.Nanoseconds(),
		summary(all.costs), summary(all.waits))
}

func work(lock acquire, plan plan, key string, start time.Time, tally *tally) {
	end := start.Add(plan.time)
	asked := time.Now()
	for left := plan.locks; left > 0 && asked.Before(end); left-- {
		release := lock(key)
		got := time.Now()
		done := got
		if plan.body > 0 {
			keep(got.Add(plan.body))
			done = time.Now()
		}
		release()
		released := time.Now()
		if !released.After(end) {
			tally.waits = append(tally.waits, got.Sub(asked))
			tally.costs = append(tally.costs, released.Sub(asked)-done.Sub(got))
		}
		asked = released
	}
}

// keep waits until a time precisely.
func keep(until time.Time) {
	time.Sleep(time.Until(until) - 1200*time.Microsecond)
	for time.Now().Before(until) {
		runtime.Gosched()
	}
}

// alternate acquires one lock repeatedly while another process does the same.
func alternate(lock acquire, order string) string {
	words := strings.Split(order, " ")
	key, passes, rest := "bench-"+words[0], number(words[1]), time.Duration(number(words[2]))
	var times []string
	for range passes {
		release := lock(key)
		times = append(times, clock())
		time.Sleep(2 * rest)
		times = append(times, clock())
		release()
		time.Sleep(rest)
	}
	return strings.Join(times, " ")
}

func clock() string {
	return strconv.FormatInt(time.Now().UnixNano(), 10)
}

func summary(times []time.Duration) string {
	if len(times) == 0 {
		return "0 0 0 0 0"
	}
	slices.Sort(times)
	var sum time.Duration
	for _, time := range times {
		sum += time
	}
	percentile := func(percent int) int64 { return times[(len(times)-1)*percent/100].Nanoseconds() }
	mean := sum.Nanoseconds() / int64(len(times))
	return fmt.Sprintf("%d %d %d %d %d", len(times), mean, percentile(50), percentile(99), percentile(100))
}

func number(word string) int64 {
	number, err := strconv.ParseInt(word, 10, 64)
	check(err)
	return number
}

func check(err error) {
	if err != nil {
		panic(err)
	}
}
