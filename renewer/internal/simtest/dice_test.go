package simtest_test

import (
	"hash/fnv"
	"math/rand/v2"
	"strconv"
	"time"
)

// dice is a source of chance. Each caller and each request has its own, drawn
// from the world's seed and a label: so what one of them does depends on nobody
// else's speed.
type dice struct{ *rand.Rand }

func newDice(seed uint64, label string, n ...int) dice {
	h := fnv.New64a()
	_, _ = h.Write([]byte(label)) // never fails
	for _, i := range n {
		_, _ = h.Write(strconv.AppendInt([]byte{' '}, int64(i), 10))
	}
	return dice{rand.New(rand.NewPCG(seed, h.Sum64()))}
}

// chance is true in p of all cases.
func (d dice) chance(p float64) bool { return d.Float64() < p }

// between is a duration in [least, most), to the nanosecond, so that
// two things hardly ever happen at the same instant.
func (d dice) between(least, most time.Duration) time.Duration {
	if most <= least {
		return least
	}
	return least + time.Duration(d.Int64N(int64(most-least)))
}

// pick is one of several.
func pick[T any](d dice, of ...T) T { return of[d.IntN(len(of))] }
