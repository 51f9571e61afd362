package simtest_test

import "github.com/lockbeat/lockbeat/renewer/store"

// fenceTokens are what a server knows of fencing tokens: a mark for all names.
// The clock is in microseconds.
type fenceTokens struct {
	faults faults
	marks  [2]int64 // the highest token granted or reserved; the second is used by a fault alone
}

// mark is the one of the server.
func (k *fenceTokens) mark(t *tenure) *int64 {
	if k.faults.twoMarks {
		return &k.marks[t.process%2]
	}
	return &k.marks[0]
}

// pick is the token of a new tenure, and the highest that is reserved with it:
// none is further ahead of the clock than [store.MaxReserved], unless it is the
// one granted.
func (k *fenceTokens) pick(t *tenure, waits bool, clock int64) (low, high int64) {
	mark := k.mark(t)
	low = max(clock, *mark+1)
	high = low
	if waits {
		high = max(low, clock+store.MaxReserved)
	}
	*mark = high
	if k.faults.forgetsReserved {
		*mark = low
	}
	return low, high
}
