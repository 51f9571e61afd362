//go:build linux

package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"
)

const honestName = "honest"

// clients are honest, and keep their connections.
var clients = &http.Client{
	Transport: &http.Transport{MaxIdleConnsPerHost: 200, IdleConnTimeout: time.Minute},
	Timeout:   20 * time.Second,
}

// window is for how long a p99 is taken.
const window = 10 * time.Second

// times are how long requests took, from when each was due.
type times struct {
	begun time.Time
	mu    sync.Mutex
	all   []time.Duration
	parts map[int][]time.Duration // the same by window
	wrong map[string]int          // answers that are none
}

// honest sends rate requests a second, each when it is due, whatever has become of the others.
func honest(ctx context.Context, addr string, rate int, d time.Duration) *times {
	t := &times{
		begun: time.Now(), parts: make(map[int][]time.Duration),
		wrong: make(map[string]int),
	}
	var wg sync.WaitGroup
	defer wg.Wait()
	ticker := time.NewTicker(time.Second / time.Duration(rate))
	defer ticker.Stop()
	end := time.After(d)
	for i := 0; ; i++ {
		select {
		case due := <-ticker.C:
			wg.Go(func() { t.add(send(ctx, addr, i), due) })
		case <-end:
			return t
		case <-ctx.Done():
			return t
		}
	}
}

func (t *times) add(err error, due time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	took, part := time.Since(due), int(due.Sub(t.begun)/window)
	t.all = append(t.all, took)
	t.parts[part] = append(t.parts[part], took)
	if err != nil {
		t.wrong[err.Error()]++
	}
}

// send makes one request: a transfer mostly.
func send(ctx context.Context, addr string, i int) error {
	path, body := fmt.Sprintf("/accounts/%d/transfer", rand.IntN(accounts)), `{"to":"8","amount":5}`
	switch i % 10 {
	case 0:
		path = "/orders"
	case 1:
		path, body = "/batches", fmt.Sprintf(`{"Accounts":["%d","%d"]}`, rand.IntN(accounts),
			rand.IntN(accounts))
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://"+addr+path,
		strings.NewReader(body))
	if err != nil {
		return err
	}
	r.Header.Set("X-Client", honestName)
	r.Header.Set("Idempotency-Key", fmt.Sprint(rand.Uint64()))
	res, err := clients.Do(r)
	if err != nil {
		return err
	}
	defer func() { _ = res.Body.Close() }()
	_, err = io.Copy(io.Discard, res.Body)
	if err == nil && res.StatusCode != http.StatusOK {
		err = errors.New(res.Status)
	}
	return err
}

// at is the duration that a share of requests did not exceed.
func (t *times) at(share float64) time.Duration { return quantile(t.all, share) }

// p99 is the median of those of all windows: a machine that is taken away for half a second, as
// shared ones are, spoils one of them.
func (t *times) p99() time.Duration {
	var each []time.Duration
	for _, part := range t.parts {
		each = append(each, quantile(part, .99))
	}
	return quantile(each, .5)
}

func quantile(took []time.Duration, share float64) time.Duration {
	if len(took) == 0 {
		return 0
	}
	slices.Sort(took)
	return took[min(int(float64(len(took))*share), len(took)-1)]
}

// look asks the server what it is like.
func look(addr string, query ...string) (s state, err error) {
	res, err := clients.Get("http://" + addr + "/state?" + strings.Join(query, "&"))
	if err != nil {
		return s, err
	}
	defer func() { _ = res.Body.Close() }()
	err = json.NewDecoder(res.Body).Decode(&s)
	return s, err
}

// sample looks now and then, for d.
func sample(addr string, d time.Duration) <-chan []state {
	samples := make(chan []state, 1)
	go func() {
		var all []state
		for end := time.Now().Add(d); time.Now().Before(end); {
			<-time.After(d / 24)
			if s, err := look(addr); err == nil {
				all = append(all, s)
			}
		}
		samples <- all
	}()
	return samples
}

// settle waits until the server has got rid of the attackers, for a minute at most.
func settle(ctx context.Context, addr string, before state) (s state, err error) {
	clients.CloseIdleConnections()
	for end := time.Now().Add(time.Minute); time.Now().Before(end) &&
		ctx.Err() == nil; <-time.After(time.Second) {
		if s, err = look(addr, "gc"); err != nil {
			return s, err
		}
		if s.Goroutines <= before.Goroutines+spareGoroutines {
			break
		}
	}
	return s, err
}
