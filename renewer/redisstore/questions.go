package redisstore

import (
	"context"
	"errors"
	"log/slog"
	"math/rand/v2"
	"time"
)

const (
	// probeTimeout bounds what New spends on asking the server, and each round of questions later.
	probeTimeout = time.Second
	// Between these the pause doubles before what was not answered is asked again.
	firstProbePause = 100 * time.Millisecond
	lastProbePause  = 5 * time.Second
)

// question asks the server something about itself, and notes the answer. It returns errLater if
// there was none yet, and any other error if the server definitely refuses what locks need.
type question func(ctx context.Context) error

// errLater means that the server is down, slow or not ready, so that it must be asked again.
var errLater = errors.New("redisstore: the server has not answered yet")

// ask asks questions once, and returns those that were not answered, and the first refusal.
func ask(ctx context.Context, questions []question) (left []question, err error) {
	for _, q := range questions {
		switch err := q(ctx); {
		case errors.Is(err, errLater):
			left = append(left, q)
		case err != nil:
			return nil, err
		}
	}
	return left, nil
}

// askLater asks what was not answered until it is, until life ends, or until the client is closed.
func askLater(
	life context.Context, questions []question, closed func(context.Context) bool, log *slog.Logger,
) {
	for pause := firstProbePause; len(questions) > 0; pause = min(2*pause, lastProbePause) {
		// lest all processes ask a restarted server at once
		timer := time.NewTimer(pause/2 + rand.N(pause/2))
		select {
		case <-timer.C:
		case <-life.Done():
			timer.Stop()
			return
		}
		ctx, cancel := context.WithTimeout(life, probeTimeout)
		left, err := ask(ctx, questions)
		cancel()
		if len(left) > 0 {
			ctx, cancel = context.WithTimeout(life, probeTimeout) // there may be nothing left of it
			if closed(ctx) {
				left = nil
			}
			cancel()
		}
		if err != nil { // New has returned: every request will say so as well
			log.LogAttrs(life, slog.LevelWarn,
				"lockbeat: this Redis server refuses what locks need", slog.Any("error", err))
			return
		}
		questions = left
	}
}
