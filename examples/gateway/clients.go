package main

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
)

// What is asked for, in events.
const (
	short   = 3
	endless = 1_000_000
)

// clients ask these replicas, in turn.
type clients []string

// get asks replica i for a stream, and reads it. whole means that it came to
// its end.
func (c clients) get(ctx context.Context, i int, path string, events int) (status int, whole bool) {
	url := fmt.Sprintf("%s%s?events=%d", c[i%len(c)], path, events)
	res, err := send(ctx, http.MethodGet, url)
	if err != nil {
		return 0, false
	}
	defer res.Body.Close() //nolint:errcheck // it has been read to its end, or has failed
	text, err := io.ReadAll(res.Body)
	return res.StatusCode, err == nil && strings.HasSuffix(string(text), theEnd)
}

// crowd has each user want a stream in four windows at once. Who gets none, or
// whose stream breaks, asks the next replica. wait returns when all have read
// theirs, hangUp when they are gone.
func (c clients) crowd(ctx context.Context, user string, events int) (wait, hangUp func()) {
	var windows sync.WaitGroup
	ctx, cancel := context.WithCancel(ctx)
	for i := range 4 * users {
		windows.Go(func() {
			path := fmt.Sprintf("/chat/%s-%d", user, i/4)
			for whole := false; !whole && ctx.Err() == nil; i++ {
				_, whole = c.get(ctx, i, path, events)
			}
		})
	}
	return windows.Wait, func() { cancel(); windows.Wait() }
}

// refused has n ask for streams that do not end, and counts those with 503
// among the first answers.
func (c clients) refused(ctx context.Context, path string, n, answers int) (refused int) {
	statuses := make(chan int, n)
	for i := range n {
		go func() { status, _ := c.get(ctx, i, path, endless); statuses <- status }()
	}
	for range answers {
		if <-statuses == http.StatusServiceUnavailable { // all come, when ctx ends at the latest
			refused++
		}
	}
	return refused
}
