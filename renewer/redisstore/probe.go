package redisstore

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"time"

	"github.com/redis/rueidis"
)

// probeTimeout bounds what New spends on asking the server.
const probeTimeout = time.Second

// probeName is no lock's name in a key: a percent sign of a name would be escaped. Nor is probeElsewhere, in another slot.
const (
	probeName      = "%"
	probeElsewhere = "%%"
)

// probe finds out whether the server lets us do what locks need. It returns an error only for a definite refusal.
func (s *Store) probe(ctx context.Context) error {
	key := s.prefix + "{" + probeName + "}"
	keys := []string{key, key + fenceSuffix}
	var args []string
	if s.cluster {
		args = append(args, toShard)
	} else {
		// A node of a cluster refuses keys of two slots, whichever it serves. So a client that does not know that there is one is
		// found out: as long as it is lucky with its locks' slots, all would seem well.
		keys = append(keys, s.prefix+"{"+probeElsewhere+"}")
	}
	// By text first, then by name: so that both rights are needed, and the name is known.
	for _, whole := range []bool{true, false} {
		reply, err := s.client.Do(ctx, probeScript.command(s.client.B(), whole, keys, args...)).ToMessage()
		if err != nil {
			var answer *rueidis.RedisError
			if errors.As(err, &answer) && s.definite(answer.Error()) || errors.Is(err, rueidis.ErrNoCache) {
				return s.wrap("new", err)
			}
			return nil // down, slow or not ready: locks taken later wait for it
		}
		denied, err := reply.ToArray()
		if err != nil || len(denied) == 0 {
			continue // an odd reply will be met by the locks' own scripts, which say so
		}
		if len(denied) == 2 {
			command, _ := denied[0].ToString()
			text, _ := denied[1].ToString()
			if s.definite(text) {
				return s.denied(part(command), errorText(text))
			}
		}
		return nil
	}
	return s.probeWait(ctx)
}

// probeWait finds out whether the server would wait for replicas, if it will be asked to: for none of them, which takes no time.
func (s *Store) probeWait(ctx context.Context) error {
	if s.replicas == 0 {
		return nil
	}
	err := s.client.Do(ctx, s.client.B().Wait().Numreplicas(0).Timeout(1).Build()).Error()
	if answer, ok := rueidis.IsRedisErr(err); ok && s.definite(answer.Error()) {
		return s.denied("WAIT", errorText(answer.Error()))
	}
	return nil
}

// definite tells whether to refuse a server at once. A replica is one, although a fail-over may promote it: at start it is a
// wrong address by far more often.
func (s *Store) definite(text string) bool { return s.classify(text) != passing }

// errDenied is below the error for a command refused inside the script: there the server's own error is only text.
var errDenied = errors.New("redisstore: the server refuses a command that locks need")

// denied names the command, which the server's error often does not.
func (s *Store) denied(command, text string) error {
	kind := s.classify(text)
	return &serverError{
		op: "new", text: "the server refuses " + command + ": " + text,
		hint: s.hint(kind), rejected: kind.rejected(), err: errDenied,
	}
}

// mayLine finds out whether the server lets waiters stand in line on it. If not, or if nobody knows, they are all woken when a lock is
// free.
func (s *Store) mayLine(ctx context.Context) bool {
	keys := []string{s.prefix + "{" + probeName + "}"}
	denied, err := s.client.Do(ctx, probeScript.command(s.client.B(), true, keys, withLines)).ToArray()
	return err == nil && len(denied) == 0
}

// runID asks the server for its run ID, if it lets us see that.
func (s *Store) runID(ctx context.Context) string {
	text, err := s.client.Do(ctx, s.client.B().Info().Section("server").Build()).ToString()
	if err != nil {
		return ""
	}
	for line := range strings.Lines(text) {
		if id, ok := strings.CutPrefix(line, "run_id:"); ok {
			return strings.TrimSpace(id)
		}
	}
	return ""
}

// warnOfEviction says once that the server may throw locks away before their time, if it lets us see that.
func (s *Store) warnOfEviction(ctx context.Context, log *slog.Logger) {
	get := s.client.B().ConfigGet().Parameter("maxmemory-policy").Build()
	config, err := s.client.Do(ctx, get).AsStrMap()
	if err != nil {
		return
	}
	policy := config["maxmemory-policy"]
	if policy == "" || policy == "noeviction" {
		return
	}
	log.LogAttrs(ctx, slog.LevelWarn,
		"lockbeat: this Redis server may evict locks when its memory is full, and then two owners may hold one; "+
			"keep locks on a server with maxmemory-policy noeviction",
		slog.String("maxmemory-policy", policy))
}
