package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"runtime"
	"runtime/debug"
	"time"
)

// childEnv makes this program a child: a process that holds leases, or
// makes requests, for another that measures. Its value is a childSpec.
const childEnv = "LOCKBEAT_BENCH_CHILD"

// childSpec says what a child does.
type childSpec struct {
	Part       string // of one library among its peers; "" for the sections of Lockbeat
	Who        string // a contestant that holds leases, or generator, which needs nothing else
	Addr       string
	Cluster    bool // of which Addr is a node
	Leases     int
	TTL        time.Duration
	Hold       time.Duration
	Memory     int64  // what GOMEMLIMIT would say; 0: no limit
	Profile    string // a folder, or "" for none
	Name       string // the key of a part
	Goroutines int    // of a part that contends
	Way        string // to connect, of a lock written by hand
}

// taken is what a child says when it has its leases.
type taken struct {
	Took   time.Duration
	CPU    time.Duration
	Failed int
	Err    string
}

// kept is what it says when it has kept them.
type kept struct {
	CPU        time.Duration // of the hold alone
	Lost       int
	PeakRSS    int64
	Heap       int64 // live, at the end
	Goroutines int   // the most at a time, less those before it began
	Own        int   // those of the holder's packages, at the end
}

// acquirers is the number of goroutines that acquire.
const acquirers = 64

func childMain(spec string, stdin io.Reader, stdout, stderr io.Writer) int {
	if err := child(context.Background(), spec, stdin, stdout); err != nil {
		_, _ = fmt.Fprintln(stderr, "bench child:", err)
		return 1
	}
	return 0
}

// child plays its part.
func child(ctx context.Context, text string, stdin io.Reader, stdout io.Writer) error {
	var s childSpec
	if err := json.Unmarshal([]byte(text), &s); err != nil {
		return fmt.Errorf("%s: %w", childEnv, err)
	}
	if s.Part != "" {
		return playPart(ctx, s, stdin, stdout)
	}
	if s.Who == generator {
		return generate(ctx, stdin, stdout)
	}
	return holdFor(ctx, s, stdin, stdout)
}

// holdFor acquires, says so, waits for a line, holds, says how it went, and waits for the end
// of its input, so that the parent can look at the server while everything is still held.
func holdFor(ctx context.Context, s childSpec, stdin io.Reader, stdout io.Writer) error {
	in, out := bufio.NewReader(stdin), json.NewEncoder(stdout)
	if s.Memory > 0 {
		debug.SetMemoryLimit(s.Memory)
	}
	if s.Profile != "" {
		runtime.MemProfileRate = 4096 // a lease is small
	}
	profile, err := startProfile(s.Profile, "leases-"+s.Who, "heap")
	if err != nil {
		return err
	}
	before := runtime.NumGoroutine()
	h, err := newHolder(ctx, s)
	if err != nil {
		return err
	}
	got, err := take(ctx, h, s)
	if err != nil {
		return err
	}
	if err := out.Encode(got); err != nil {
		return err
	}
	if _, err := in.ReadString('\n'); err != nil {
		return err
	}
	k, err := keep(h, s.Hold, before)
	if err != nil {
		return err
	}
	if err := profile.stop(); err != nil {
		return err
	}
	if err := out.Encode(k); err != nil {
		return err
	}
	_, err = in.ReadString('\n')
	if errors.Is(err, io.EOF) {
		err = nil
	}
	runtime.KeepAlive(h)
	return err
}

func take(ctx context.Context, h holder, s childSpec) (taken, error) {
	before, err := cpuTime()
	if err != nil {
		return taken{}, err
	}
	begun := time.Now()
	failed, failure := acquireAll(ctx, h, s.Leases, acquirers)
	t := taken{Took: time.Since(begun), Failed: failed}
	if failure != nil {
		t.Err = failure.Error()
	}
	after, err := cpuTime()
	t.CPU = after - before
	return t, err
}

func liveHeap() int64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc) //nolint:gosec // it fits
}

// sampleEach is how often goroutines are counted: so seldom that it costs nothing beside the hold.
const sampleEach = 250 * time.Millisecond

func keep(h holder, hold time.Duration, before int) (kept, error) {
	var k kept
	start, err := cpuTime()
	if err != nil {
		return k, err
	}
	over := time.NewTimer(hold)
	defer over.Stop()
	sample := time.NewTicker(sampleEach)
	defer sample.Stop()
	for holding := true; holding; {
		select {
		case <-sample.C:
			k.Goroutines = max(k.Goroutines, runtime.NumGoroutine()-before)
		case <-over.C:
			holding = false
		}
	}
	end, err := cpuTime()
	if err != nil {
		return k, err
	}
	k.CPU = end - start
	k.Lost = h.lost()
	if k.PeakRSS, err = peakRSS(); err != nil {
		return k, err
	}
	k.Heap = liveHeap()
	k.Own, err = goroutinesOf(h.packages()...)
	return k, err
}
