package redisstore

import (
	"context"
	"errors"
	"log/slog"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/redis/rueidis"
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

// questions are all that a new store asks.
func (s *Store) questions(log *slog.Logger) []question {
	all := []question{s.probe, s.warning("maxmemory-policy", log, warnOfEviction)}
	if !s.cluster {
		all = append(all, s.askRunID, s.askLines)
	}
	if s.client.Mode() == rueidis.ClientModeSentinel {
		all = append(all, s.warning("min-replicas-to-write", log, warnOfNoReplicas))
	}
	return all
}

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

// askLater asks what was not answered until it is, the client is closed, or the store.
func (s *Store) askLater(questions []question, log *slog.Logger) {
	for pause := firstProbePause; len(questions) > 0; pause = min(2*pause, lastProbePause) {
		// lest all processes ask a restarted server at once
		timer := time.NewTimer(pause/2 + rand.N(pause/2))
		select {
		case <-timer.C:
		case <-s.life.Done():
			timer.Stop()
			return
		}
		ctx, cancel := context.WithTimeout(s.life, probeTimeout)
		left, err := ask(ctx, questions)
		if len(left) > 0 && s.closed(ctx) {
			left = nil
		}
		cancel()
		if err != nil { // New has returned: every request will say so as well
			log.LogAttrs(s.life, slog.LevelWarn,
				"lockbeat: this Redis server refuses what locks need", slog.Any("error", err))
			return
		}
		questions = left
	}
}

// closed reports whether the client has been closed: then it refuses a fresh request too, and not
// just those that were on their way to a server from which it has turned away. (A client that could
// not dial when it was closed goes on dialling; rueidis does not tell those from others.)
func (s *Store) closed(ctx context.Context) bool {
	return errors.Is(do(ctx, s.client, s.client.B().Ping().Build()).Error(), rueidis.ErrClosing)
}

// noteClosed finds out whether a request that was refused since its connection is closing was
// refused because the client has been closed.
func (s *Store) noteClosed(ctx context.Context, r rueidis.RedisResult) {
	if errors.Is(r.NonRedisError(), rueidis.ErrClosing) {
		s.dead.Store(s.closed(ctx))
	}
}

// orLater is errLater if the server has not answered, or not for good, and else nil: it won't say
// any more.
func (s *Store) orLater(r rueidis.RedisResult) error {
	if r.NonRedisError() != nil {
		return errLater
	}
	if answer, ok := rueidis.IsRedisErr(r.Error()); ok && s.notReady(answer.Error()) {
		return errLater
	}
	return nil
}

// notReady reports whether a server's error is one of a server that is starting, busy, full, or in
// the middle of a fail-over.
func (s *Store) notReady(text string) bool {
	return s.classify(text) <= readOnly && slices.Contains(notReady, errorCode(text))
}

var notReady = []string{
	"LOADING", "BUSY", "OOM", "MISCONF", "NOREPLICAS", "READONLY", "MASTERDOWN",
	"CLUSTERDOWN", "TRYAGAIN",
}
