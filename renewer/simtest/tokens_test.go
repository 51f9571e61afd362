package simtest_test

import "github.com/lockbeat/lockbeat/renewer"

// fenceTokens are what a server knows of fencing tokens: a mark for
// all names, and for each name the highest token that is reserved, as
// long as the clock has not reached it. The clock is in microseconds.
type fenceTokens struct {
	faults faults
	marks  [2]int64         // the highest token granted; the second is used by a fault alone
	ahead  map[string]ahead // by name
}

// ahead is the highest token reserved.
type ahead struct{ token, until int64 }

// mark is the one of the server.
func (k *fenceTokens) mark(t *tenure) *int64 {
	if k.faults.twoMarks {
		return &k.marks[t.process%2]
	}
	return &k.marks[0]
}

// pick is the token of a new tenure.
func (k *fenceTokens) pick(t *tenure, clock int64) int64 {
	mark := k.mark(t)
	token := max(clock, *mark+1, k.reserved(t.name, clock)+1)
	if k.faults.forgetsReserved {
		token = *mark + 1
	}
	*mark = max(*mark, token)
	return token
}

// reserved is the highest token that is reserved for a name.
func (k *fenceTokens) reserved(name string, clock int64) int64 {
	a := k.ahead[name]
	if clock >= a.until {
		delete(k.ahead, name)
		return 0
	}
	return a.token
}

// reserve is how many tokens above its own a tenure gets: so that none is further ahead of the
// clock than one claim wants.
func (k *fenceTokens) reserve(t *tenure, n int, clock int64) int64 {
	most := max(0, min(int64(n), clock+int64(n)-t.low))
	if most > 0 && !k.faults.forgetsReserved {
		k.ahead[t.name] = ahead{t.low + most, t.low + most + 1_000_000}
	}
	return most
}

// giveBack takes back the tokens that were not used. The mark takes the place of their counter,
// which may have lapsed.
func (k *fenceTokens) giveBack(t *tenure, h *renewer.Hold) {
	used := max(h.Used, t.low)
	if h.Used == 0 || used >= t.high || k.faults.forgetsReserved {
		return
	}
	t.high = used
	if mark := k.mark(t); used > t.low {
		*mark = max(*mark, used)
	}
	delete(k.ahead, t.name)
}
