package main

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/lockbeat/lockbeat/testutil/redistest"
)

// peerSections compare with every other library. Each stands by itself.
var peerSections = []section{
	{"cycle", peerCycles},
	{"onekey", oneKey},
	{"hold", peerLeases},
	{"million", million},
	{"scale", scale},
	{"wake", wakeUps},
	{"told", toldOfKey},
	{"stopped", toldOfServer},
	{"killed", killed},
	inRows("crowd", crowdRows),
	inRows("tasks", taskRows),
}

// sample is what one library reached in one case, a figure a round.
type sample struct {
	values []float64
	failed string // why there are no more, "" while all is well
}

func (s *sample) add(v float64) { s.values = append(s.values, v) }

// fail keeps the first failure.
func (s *sample) fail(err error) {
	if s.failed == "" && err != nil {
		s.failed = brief(err.Error())
	}
}

func (s *sample) median() float64 { return median(s.values) }

func (s *sample) worst() float64 {
	if len(s.values) == 0 {
		return 0
	}
	return slices.Max(s.values)
}

// brief makes an error fit into a cell.
func brief(text string) string {
	const most = 80
	text = strings.NewReplacer("\n", "; ", "|", "/").Replace(text)
	if runes := []rune(text); len(runes) > most {
		text = string(runes[:most]) + "…"
	}
	return text
}

// msOf prints ms: "> 20 s" of what was not over when the wait ended.
func msOf(v float64) string {
	switch {
	case math.IsInf(v, 1):
		return fmt.Sprintf("> %v", capped)
	case math.Abs(v) >= 100:
		return fmt.Sprintf("%.0f ms", v)
	case math.Abs(v) >= 1:
		return fmt.Sprintf("%.1f ms", v)
	default:
		return fmt.Sprintf("%.3f ms", v)
	}
}

func ms(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

// times prints a ratio: of nothing there is none.
func times(a, b float64) string {
	if b == 0 || math.IsInf(a, 0) || math.IsInf(b, 0) {
		return "-"
	}
	return fmt.Sprintf("%.2f", a/b)
}

// quantileOf is the q-th part of values; +Inf, which is a cap, sorts last.
func quantileOf(values []float64, q float64) float64 {
	if len(values) == 0 {
		return math.NaN()
	}
	sorted := slices.Sorted(slices.Values(values))
	return sorted[min(int(q*float64(len(sorted))), len(sorted)-1)]
}

// leaseKey finds the key of a lease in whatever way its library names it.
func leaseKey(server *redistest.Server, name string) (string, error) {
	keys, err := server.Do("KEYS", "*"+name+"*").AsStrSlice()
	if err != nil {
		return "", fmt.Errorf("KEYS: %w", err)
	}
	for _, key := range keys {
		if kind, err := server.Do("TYPE", key).ToString(); err == nil && kind == "string" &&
			!strings.HasSuffix(key, ":fence") {
			return key, nil
		}
	}
	return "", fmt.Errorf("no key has %q in its name", name)
}

// expiry is when a key goes away.
func expiry(server *redistest.Server, key string) (time.Time, error) {
	left, err := server.Do("PTTL", key).AsInt64()
	if err != nil {
		return time.Time{}, fmt.Errorf("PTTL: %w", err)
	}
	if left < 0 {
		return time.Time{}, fmt.Errorf("the key %q was gone already", key)
	}
	return time.Now().Add(time.Duration(left) * time.Millisecond), nil
}

// locked takes a lock that is free and keeps it. let frees it and
// returns when it is free. The context is not bounded here, since
// some libraries end the lock with the context by which it was taken.
func locked(
	ctx context.Context, m mutex, ttl time.Duration,
) (held context.Context, let func() error, err error) {
	told, err := m.lock(ctx)
	if err != nil {
		return nil, nil, err
	}
	held, end := keepAlive(ctx, told, m, ttl)
	return held, func() error {
		end()
		freeing, cancel := context.WithTimeout(context.WithoutCancel(ctx), endWithin)
		defer cancel()
		return m.unlock(freeing)
	}, nil
}

var errNotEnded = errors.New("it did not come back in time")

// within bounds what may hang whatever context it has. What hangs is
// left behind; the program ends soon enough.
func within(bound time.Duration, do func() error) error {
	ended := make(chan error, 1)
	go func() { ended <- do() }()
	timer := time.NewTimer(bound)
	defer timer.Stop()
	select {
	case err := <-ended:
		return err
	case <-timer.C:
		return errNotEnded
	}
}
