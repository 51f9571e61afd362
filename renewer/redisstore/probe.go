package redisstore

import (
	"context"
	"errors"
	"log/slog"
	"strings"

	"github.com/redis/rueidis"
)

// probeName is no lock's name in a key: a percent sign of a name
// would be escaped. Nor is probeElsewhere, in another slot.
const (
	probeName      = "%"
	probeElsewhere = "%%"
)

// probe asks whether the server lets us do what locks need.
func (s *Store) probe(ctx context.Context) error {
	key := s.prefix + "{" + probeName + "}"
	keys := []string{key, key + fenceSuffix}
	var args []string
	if s.cluster {
		args = append(args, toShard)
	} else {
		// A node of a cluster refuses keys of two slots, whichever it serves.
		// So a client that does not know that there is one is found out: as
		// long as it is lucky with its locks' slots, all would seem well.
		keys = append(keys, s.prefix+"{"+probeElsewhere+"}")
	}
	// By text first, then by name: so that both rights are needed, and the name is known.
	for _, whole := range []bool{true, false} {
		r := do(ctx, s.client, probeScript.command(s.client.B(), whole, keys, args...))
		reply, err := r.ToMessage()
		if err != nil {
			var answer *rueidis.RedisError
			if errors.As(err, &answer) && s.definite(answer.Error()) ||
				errors.Is(err, rueidis.ErrNoCache) {
				return s.wrap("new", err)
			}
			return s.orLater(r)
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
			if s.notReady(text) {
				return errLater
			}
		}
		return nil
	}
	return s.probeWait(ctx)
}

// probeWait finds out whether the server would wait for replicas, if
// it will be asked to: for none of them, which takes no time.
func (s *Store) probeWait(ctx context.Context) error {
	if s.replicas == 0 {
		return nil
	}
	r := do(ctx, s.client, s.client.B().Wait().Numreplicas(0).Timeout(1).Build())
	if answer, ok := rueidis.IsRedisErr(r.Error()); ok && s.definite(answer.Error()) {
		return s.denied("WAIT", errorText(answer.Error()))
	}
	return s.orLater(r)
}

// definite tells whether to refuse a server at once. A replica is one, although
// a fail-over may promote it: at start it is a wrong address by far more often.
func (s *Store) definite(text string) bool { return s.classify(text) > full }

// errDenied is below the error for a command refused inside the
// script: there the server's own error is only text.
var errDenied = errors.New("redisstore: the server refuses a command that locks need")

// denied names the command, which the server's error often does not.
func (s *Store) denied(command, text string) error {
	kind := s.classify(text)
	return &serverError{
		op: "new", text: "the server refuses " + command + ": " + text,
		hint: s.hint(kind), mark: kind.mark(), err: errDenied,
	}
}

// askLines asks whether the server lets waiters stand in line on it. If not, and until that is
// known, they are all woken when a lock is free.
func (s *Store) askLines(ctx context.Context) error {
	keys := []string{s.prefix + "{" + probeName + "}"}
	r := do(ctx, s.client, probeScript.command(s.client.B(), true, keys, withLines))
	denied, err := r.ToArray()
	if err == nil && len(denied) == 2 {
		if text, _ := denied[1].ToString(); s.notReady(text) {
			return errLater
		}
	}
	if err == nil && len(denied) == 0 {
		s.lines.Store(true)
	}
	return s.orLater(r)
}

// askRunID asks the server for its run ID, if it lets us see that.
func (s *Store) askRunID(ctx context.Context) error {
	r := do(ctx, s.client, s.client.B().Info().Section("server").Build())
	text, err := r.ToString()
	if err != nil {
		return s.orLater(r)
	}
	for line := range strings.Lines(text) {
		if id, ok := strings.CutPrefix(line, "run_id:"); ok {
			id = strings.TrimSpace(id)
			s.server.Store(&id)
		}
	}
	return nil
}

// warning makes a question for one of the server's settings, if it lets us see that, about which
// warn may have something to say.
func (s *Store) warning(setting string, log *slog.Logger, warn func(value string) string) question {
	return func(ctx context.Context) error {
		r := do(ctx, s.client, s.client.B().ConfigGet().Parameter(setting).Build())
		config, err := r.AsStrMap()
		if err != nil {
			return s.orLater(r)
		}
		if value := config[setting]; value != "" {
			if text := warn(value); text != "" {
				log.LogAttrs(ctx, slog.LevelWarn, "lockbeat: "+text, slog.String(setting, value))
			}
		}
		return nil
	}
}

// warnOfEviction: the server may throw locks away before their time.
func warnOfEviction(policy string) string {
	if policy == "noeviction" {
		return ""
	}
	return "this Redis server may evict locks when its memory is full, and then two owners may " +
		"hold one; " +
		"keep locks on a server with maxmemory-policy noeviction"
}

// warnOfNoReplicas: after a fail-over, clients that hear of no Sentinel may go on with the former
// primary.
func warnOfNoReplicas(least string) string {
	if least != "0" {
		return ""
	}
	return "this Redis server would go on to grant locks after a fail-over that it has not heard " +
		"of, to clients that have not " +
		"heard of it either; set min-replicas-to-write 1 and min-replicas-max-lag on all servers " +
		"behind Sentinel"
}
