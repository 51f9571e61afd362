package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"slices"
	"strconv"
	"sync"
	"time"
)

// generator is the child that makes requests.
const generator = "load generator"

// job is what the generator does next: For a time, or a number of Requests, whichever is not 0.
type job struct {
	Protocol string
	Addr     string
	Workers  int // who make one request after the other
	Accounts int // 0: each request has one of its own
	For      time.Duration
	Requests int // of each worker
}

// work is what came of a job.
type work struct {
	Requests int
	OK       int
	Refused  map[string]int // what all other answers were
	Took     time.Duration
	P50, P99 time.Duration
}

// generate does a job for each line of its input, and says what came of it, until the input ends.
func generate(ctx context.Context, stdin io.Reader, stdout io.Writer) error {
	in, out := json.NewDecoder(stdin), json.NewEncoder(stdout)
	fresh := 0
	for {
		var j job
		if err := in.Decode(&j); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return err
		}
		done, err := j.do(ctx, fresh)
		if err != nil {
			return err
		}
		fresh += done.Requests
		if err := out.Encode(done); err != nil {
			return err
		}
	}
}

// do connects, works and leaves. Accounts of their own are numbered from fresh on.
func (j job) do(ctx context.Context, fresh int) (work, error) {
	one, leave, err := connect(j)
	if err != nil {
		return work{}, err
	}
	defer leave()
	ctx, cancel := context.WithTimeout(ctx, j.For+2*longWait) // should the server hang
	defer cancel()
	shifts := make([]shift, j.Workers)
	begun := time.Now()
	var wg sync.WaitGroup
	for n := range shifts {
		wg.Go(func() { shifts[n].run(ctx, j, one, begun, fresh+n) })
	}
	wg.Wait()
	return sum(shifts, time.Since(begun)), nil
}

// shift is what one worker has done.
type shift struct {
	times   []time.Duration
	ok      int
	refused map[string]int
}

func (s *shift) run(ctx context.Context, j job, one call, begun time.Time, fresh int) {
	s.refused = make(map[string]int)
	for now := begun; j.For > 0 && now.Sub(begun) < j.For || len(s.times) < j.Requests; {
		account := "own-" + strconv.Itoa(fresh+len(s.times)*j.Workers)
		if j.Accounts > 0 {
			account = strconv.Itoa(rand.IntN(j.Accounts))
		}
		ok, answer := one(ctx, account)
		if ok {
			s.ok++
		} else {
			s.refused[answer]++
		}
		asked := now
		now = time.Now()
		s.times = append(s.times, now.Sub(asked))
	}
}

func sum(shifts []shift, took time.Duration) work {
	w := work{Refused: make(map[string]int), Took: took}
	var times []time.Duration
	for i := range shifts {
		s := &shifts[i]
		times = append(times, s.times...)
		w.OK += s.ok
		for answer, n := range s.refused {
			w.Refused[answer] += n
		}
	}
	slices.Sort(times)
	w.Requests, w.P50, w.P99 = len(times), quantile(times, .5), quantile(times, .99)
	return w
}

// quantile is the q-th part of sorted times, exactly; 0 of none.
func quantile(sorted []time.Duration, q float64) time.Duration {
	if len(sorted) == 0 {
		return 0
	}
	return sorted[int(q*float64(len(sorted)))]
}

// ask has the generator do a job.
func (c *childProcess) ask(j job) (work, error) {
	if err := json.NewEncoder(c.stdin).Encode(j); err != nil {
		return work{}, fmt.Errorf("the %s has gone: %w", generator, err)
	}
	var w work
	if err := c.said.Decode(&w); err != nil {
		return work{}, fmt.Errorf("the %s ended at work: %w", generator, err)
	}
	return w, nil
}
