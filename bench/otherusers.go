package main

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"
)

// hotWork is the work of each task, of the hot user and of the others.
const hotWork = 20 * time.Millisecond

// others are users with few tasks, a hundred a second in all. No two of one user meet.
type others struct {
	cancel context.CancelFunc
	ended  chan struct{}

	mu       sync.Mutex
	enqueued map[string]int64
	err      error
}

func startOthers(ctx context.Context, f *fleet) *others {
	ctx, cancel := context.WithCancel(ctx)
	o := &others{
		cancel: cancel, ended: make(chan struct{}), enqueued: make(map[string]int64),
	}
	go func() {
		defer close(o.ended)
		const each, users = 10 * time.Millisecond, 1000
		ticker := time.NewTicker(each)
		defer ticker.Stop()
		for i := 0; ; i++ {
			select {
			case <-ctx.Done():
				return
			case <-ticker.C:
			}
			id, at, err := f.enqueueOne(fmt.Sprintf("other-%d", i%users), hotWork)
			o.mu.Lock()
			if o.err = errors.Join(o.err, err); err == nil {
				o.enqueued[id] = at
			}
			o.mu.Unlock()
		}
	}()
	return o
}

func (o *others) stop() (enqueued map[string]int64, err error) {
	o.cancel()
	<-o.ended
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.enqueued, o.err
}
