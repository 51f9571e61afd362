// Package records keeps the records of work on the server, each beside its
// lock, which belongs to who has the lock's token, and to no one with a lower
// one.
//
// It owns records, and touches no lease: look.lua and write.lua compare tokens
// with those in the record itself.
package records

import (
	"context"
	"fmt"
	"time"

	"github.com/redis/rueidis"

	"github.com/lockbeat/lockbeat/renewer"
	"github.com/lockbeat/lockbeat/renewer/redisstore/internal/refusal"
	"github.com/lockbeat/lockbeat/renewer/redisstore/internal/schema"
	"github.com/lockbeat/lockbeat/renewer/redisstore/internal/script"
	"github.com/lockbeat/lockbeat/renewer/store"
)

const recordSuffix = ":record"

// maxRecord is how many bytes the data of a record may have: 16 MiB.
// [Records.Write] refuses more, and [Records.Prepare] and [Records.Read] a
// record that another client has made larger: both are [renewer.ErrRejected].
const maxRecord = 16 << 20

// Records are those of a deployment. Its methods may be called concurrently.
type Records struct{ asker *script.Asker }

// New has the records where an asker asks.
func New(asker *script.Asker) *Records { return &Records{asker} }

// keyOf is in the slot of the lock's other keys.
func (s *Records) keyOf(name string) []string {
	return []string{schema.LockKey(s.asker.Prefix, name) + recordSuffix}
}

// MaxRecord returns 16 MiB: see [store.Recorder].
func (s *Records) MaxRecord() int { return maxRecord }

// Prepare implements [store.Recorder]. A TTL below 1 ms is answered with
// [renewer.ErrConfig].
func (s *Records) Prepare(ctx context.Context, terms []store.Term) []store.Seen {
	return s.look(ctx, "prepare", terms)
}

// Read implements [store.Recorder].
func (s *Records) Read(ctx context.Context, names []string) []store.Seen {
	terms := make([]store.Term, len(names))
	for i := range terms {
		terms[i].Name = names[i]
	}
	return s.look(ctx, "read", terms)
}

// look reads records; a term that has a token begins.
func (s *Records) look(ctx context.Context, what string, looks []store.Term) []store.Seen {
	seen := make([]store.Seen, len(looks))
	asked := make([]int, 0, len(looks))
	for i := range looks {
		if looks[i].Fence == 0 {
			asked = append(asked, i)
		} else if _, seen[i].Err = store.Millis(looks[i].TTL); seen[i].Err == nil {
			if seen[i].Err = roomFor(what, looks[i].Data); seen[i].Err == nil {
				asked = append(asked, i)
			}
		}
	}
	calls := make([]script.Call, len(asked))
	for j, i := range asked {
		l := &looks[i]
		calls[j] = script.Call{
			Script: script.Look, Name: l.Name, Keys: s.keyOf(l.Name),
			Args: []string{
				schema.Decimal(l.Fence), schema.Decimal(l.TTL.Milliseconds()), l.Data,
				schema.Decimal(l.After.Fence), schema.Decimal(l.After.Seq),
			},
		}
	}
	s.asker.All(ctx, what, calls, func(j int, reply rueidis.RedisMessage, err error) {
		i := asked[j]
		if err != nil {
			seen[i].Err = err
			return
		}
		var ok bool
		if seen[i], ok = readSeen(reply, looks[i].Fence); !ok {
			seen[i].Err = refusal.Unreadable(what)
		}
	})
	return seen
}

// Write implements [store.Recorder]. A TTL below 1 ms is answered with
// [renewer.ErrConfig], and data above [Records.MaxRecord] with
// [renewer.ErrRejected].
func (s *Records) Write(ctx context.Context, records []store.Record) []store.Answer {
	answers := make([]store.Answer, len(records))
	asked := make([]int, 0, len(records))
	for i := range records {
		if _, err := store.Millis(records[i].TTL); err != nil && !records[i].Erase {
			answers[i].Err = err
			continue
		}
		if answers[i].Err = roomFor("write", records[i].Data); answers[i].Err != nil {
			continue
		}
		asked = append(asked, i)
	}
	calls := make([]script.Call, len(asked))
	for j, i := range asked {
		r := records[i]
		if r.Erase {
			r.TTL, r.Data = 0, ""
		}
		calls[j] = script.Call{
			Script: script.Write, Name: r.Name, Keys: s.keyOf(r.Name),
			Args: []string{
				schema.Decimal(r.Fence), schema.Decimal(r.Seq),
				schema.Decimal(r.TTL.Milliseconds()), r.Data,
			},
		}
	}
	s.asker.All(ctx, "write", calls, func(j int, reply rueidis.RedisMessage, err error) {
		i := asked[j]
		if err != nil {
			answers[i].Err = err
			return
		}
		var ok bool
		if answers[i].Status, ok = readWritten(reply); !ok {
			answers[i].Err = refusal.Unreadable("write")
		}
	})
	return answers
}

// roomFor refuses data that is too large.
func roomFor(what, data string) error {
	if n := len(data); n > maxRecord {
		return fmt.Errorf("redisstore: %s: %w: the record has %d bytes, above the limit of %d; "+
			"keep a reference in it", what, renewer.ErrRejected, n, maxRecord)
	}
	return nil
}

// readSeen reads the reply of look.lua to a holder with a token, or 0.
func readSeen(reply rueidis.RedisMessage, fence int64) (seen store.Seen, ok bool) {
	parts, err := reply.ToArray()
	if err == nil && len(parts) == 1 {
		term, err := parts[0].ToInt64()
		if err != nil || fence == 0 || term <= fence || term > schema.MaxExact {
			return seen, false
		}
		return store.Seen{Status: store.StatusTaken}, true
	}
	if err != nil || len(parts) != 5 || !parts[2].IsString() {
		return seen, false
	}
	by, err0 := parts[0].ToInt64()
	seq, err1 := parts[1].ToInt64()
	data, err2 := parts[2].ToString()
	left, err3 := parts[3].ToInt64()
	now, err4 := parts[4].ToInt64()
	if err0 != nil || err1 != nil || err2 != nil || err3 != nil || err4 != nil || by < 0 ||
		by > schema.MaxExact || seq < 0 || seq > schema.MaxExact || now <= 0 ||
		now > schema.MaxExact {
		return seen, false
	}
	seen = store.Seen{
		Status: store.StatusHeld, Fence: by, Seq: seq, Data: data, Now: time.UnixMicro(now),
	}
	if by != 0 {
		seen.TTL = schema.Millis(left)
	}
	return seen, true
}

// readWritten reads the reply of write.lua.
func readWritten(reply rueidis.RedisMessage) (store.Status, bool) {
	if !reply.IsInt64() {
		return store.StatusUnknown, false
	}
	switch n, _ := reply.ToInt64(); n {
	case 1:
		return store.StatusHeld, true
	case 0:
		return store.StatusTaken, true
	case -1:
		return store.StatusGone, true
	case -2:
		return store.StatusBehind, true
	default:
		return store.StatusUnknown, false
	}
}
