package ticks

import (
	"encoding/binary"
	"fmt"
	"hash/fnv"
	"time"
)

const (
	// sampled is the year whose ticks are looked at: past, so that no change of a zone's rules will
	// touch it and nodes with other zone data agree, and with a 29th of February.
	sampled = 2024
	// This many ticks are looked at from its beginning...
	sampledTicks = 100
	// ...and the next one after each instant that is so far from the one before: at all times of
	// the day and on all days of the week, in summer and winter.
	sampledEach = 25*time.Hour + 13*time.Minute
)

// Fingerprint is a short text that is the same for schedules with the same ticks, and as a rule
// another one for others: a hash of some 450 ticks. The text of a crontab would not do: a schedule
// that is given as a value has none, it lacks the zone, and "@every 60s" and "* * * * *" are one
// schedule.
func Fingerprint(s Schedule) string {
	hash := fnv.New64a()
	add := func(t time.Time) {
		var b [8]byte
		binary.BigEndian.PutUint64(b[:], uint64(t.UnixMilli())) //nolint:gosec // a hash of the bits
		_, _ = hash.Write(b[:])                                 // it never fails
	}
	begin := time.Date(sampled, 1, 1, 0, 0, 0, 0, time.UTC)
	next := s.Next(begin)
	for i := 0; i < sampledTicks && !next.IsZero(); i++ {
		add(next)
		next = s.Next(next)
	}
	for at := begin; at.Year() == sampled; at = at.Add(sampledEach) {
		add(s.Next(at))
	}
	return fmt.Sprintf("%016x", hash.Sum64())
}
