package storetest

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/lockbeat/lockbeat/renewer/store"
)

const (
	long   = time.Minute      // a TTL that never lapses within a case
	bound  = 20 * time.Second // for what must happen; far above what it takes
	callBy = 5 * time.Second  // for one call that has nothing to wait for
)

var owners atomic.Int64

// newOwner returns an owner token that no case has used.
func newOwner() string {
	return fmt.Sprintf("owner-%0*d", store.OwnerLen-len("owner-"), owners.Add(1))
}

// acquire asks for one name.
func (s *suite) acquire(t testing.TB, name, owner string, ttl time.Duration) store.Grant {
	t.Helper()
	return s.acquireAs(t, name, owner, ttl, store.Holder{Node: "node", PID: 1})
}

func (s *suite) acquireAs(
	t testing.TB, name, owner string, ttl time.Duration, holder store.Holder,
) store.Grant {
	t.Helper()
	return s.acquireAll(t, []store.Claim{{Name: name, Owner: owner, TTL: ttl, Holder: holder}})[0]
}

// acquireAll asks for claims and checks what holds of every answer.
func (s *suite) acquireAll(t testing.TB, claims []store.Claim) []store.Grant {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), callBy)
	defer cancel()
	grants := s.Store.Acquire(ctx, claims)
	require.Len(t, grants, len(claims), "one answer an item")
	for i, g := range grants {
		checkGrant(t, claims[i].Name, g)
	}
	return grants
}

func checkGrant(t testing.TB, name string, g store.Grant) {
	t.Helper()
	require.NoError(t, g.Err, "acquire %q", name)
	switch g.Status {
	case store.StatusHeld:
		require.Positive(t, g.Fence, "the fencing token of %q", name)
		requireGrant(t, store.Grant{
			Status: store.StatusHeld, Fence: g.Fence, Reserved: g.Reserved,
		}, g, "a grant of %q has tokens and nothing else", name)
		require.GreaterOrEqual(t, g.Reserved, 0)
		require.LessOrEqual(t, g.Reserved, store.MaxReserved)
	case store.StatusTaken, store.StatusQueued:
		require.Zero(t, g.Fence, "no fencing token for a refused claim of %q", name)
		require.GreaterOrEqual(t, g.HeldFor, time.Duration(0), "how long %q has been held", name)
		require.GreaterOrEqual(t, g.TTL, time.Duration(0), "how long %q will be held", name)
	case store.StatusReplaced:
		requireGrant(t, store.Grant{Status: store.StatusReplaced}, g, "of %q", name)
	case store.StatusUnknown, store.StatusGone, store.StatusBehind, store.StatusBroken:
		require.Fail(t, "an Acquire is answered StatusHeld or StatusTaken",
			"%q: %v (StatusBehind is for a proposal)", name, g.Status)
	}
}

// own requires that owner gets name, and returns its fencing token.
func (s *suite) own(t testing.TB, name, owner string, ttl time.Duration) int64 {
	t.Helper()
	g := s.acquire(t, name, owner, ttl)
	requireStatus(t, store.StatusHeld, g.Status, "%q is free", name)
	return g.Fence
}

// obtain is own for a name that was freed after a claim for it was refused: see
// Fixture.Several.
func (s *suite) obtain(t testing.TB, name, owner string) int64 {
	t.Helper()
	if !s.Several {
		return s.own(t, name, owner, long)
	}
	var g store.Grant
	s.until(t, "that the name is free", func() bool {
		g = s.acquire(t, name, owner, long)
		return g.Status == store.StatusHeld
	})
	return g.Fence
}

// refused requires that another owner than this one has name, and returns what
// this one hears.
func (s *suite) refused(t testing.TB, name, owner string) store.Grant {
	t.Helper()
	g := s.acquire(t, name, owner, long)
	requireStatus(t, store.StatusTaken, g.Status, "%q is another owner's", name)
	return g
}

func (s *suite) renew(t testing.TB, name, owner string, ttl time.Duration) store.Status {
	t.Helper()
	return s.holds(t, s.Store.Renew, []store.Hold{{Name: name, Owner: owner, TTL: ttl}})[0]
}

func (s *suite) release(t testing.TB, name, owner string) store.Status {
	t.Helper()
	return s.holds(t, s.Store.Release, []store.Hold{{Name: name, Owner: owner}})[0]
}

func (s *suite) renewSlot(t *testing.T, owner string, ttl time.Duration) store.Status {
	t.Helper()
	hold := slotHeld(owner)
	hold.TTL = ttl
	return s.holds(t, s.Store.Renew, []store.Hold{hold})[0]
}

// held is the hold of a lock, for a long time.
func held(owner string) store.Hold { return store.Hold{Name: "name", Owner: owner, TTL: long} }

// slotHeld is that of a slot.
func slotHeld(owner string) store.Hold {
	return store.Hold{Name: limit.Text, Limit: true, Owner: owner, TTL: long}
}

// holds asks do for every hold and checks that the answers are certain.
func (s *suite) holds(
	t testing.TB, do func(context.Context, []store.Hold) []store.Answer, holds []store.Hold,
) []store.Status {
	t.Helper()
	answers := s.answers(t, do, holds)
	statuses := make([]store.Status, len(answers))
	for i, a := range answers {
		statuses[i] = a.Status
	}
	return statuses
}

// answers is holds with all that the answers tell.
func (s *suite) answers(
	t testing.TB, do func(context.Context, []store.Hold) []store.Answer, holds []store.Hold,
) []store.Answer {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), callBy)
	defer cancel()
	answers := do(ctx, holds)
	require.Len(t, answers, len(holds), "one answer an item")
	for i, a := range answers {
		require.NoError(t, a.Err, "%q", holds[i].Name)
		require.NotEqual(t, store.StatusUnknown, a.Status, "%q", holds[i].Name)
	}
	return answers
}

// wait lets d go by on the store's clock.
func (s *suite) wait(t testing.TB, d time.Duration) {
	t.Helper()
	if s.Advance != nil {
		s.Advance(d)
		return
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-t.Context().Done():
		require.NoError(t, t.Context().Err())
	}
}

// until asks cond again and again, with pauses, and fails after bound.
func (s *suite) until(t testing.TB, what string, cond func() bool) {
	t.Helper()
	const step = 5 * time.Millisecond
	for range int(bound / step) {
		if cond() {
			return
		}
		s.wait(t, step)
	}
	require.Fail(t, "never happened", "%s, within %v", what, bound)
}

// requireGrant compares a whole answer with what the contract says, in words.
func requireGrant(t testing.TB, want, got store.Grant, why ...any) {
	t.Helper()
	if want != got {
		require.Equal(t, grantText(want), grantText(got), why...)
		require.Equal(t, want, got, why...) // they differ in what the text leaves out
	}
}

// grantText is what a grant says, without what it leaves out.
func grantText(g store.Grant) string {
	text := []string{g.Status.String()}
	for _, field := range []struct {
		name        string
		value, none any
	}{
		{"Fence", g.Fence, int64(0)},
		{"Reserved", g.Reserved, 0},
		{"Holder", g.Holder, store.Holder{}},
		{"HeldFor", g.HeldFor, time.Duration(0)},
		{"TTL", g.TTL, time.Duration(0)},
		{"Held", g.Held, 0},
		{"Err", g.Err, nil},
	} {
		if field.value != field.none {
			text = append(text, fmt.Sprint(field.name, " ", field.value))
		}
	}
	return strings.Join(text, ", ")
}

// assertStatus compares an answer with what the contract says, in words.
func assertStatus(t testing.TB, want, got store.Status, why ...any) {
	t.Helper()
	assert.Equal(t, want.String(), got.String(), why...)
}

// assertStatuses is assertStatus for a batch.
func assertStatuses(t testing.TB, want, got []store.Status, why ...any) {
	t.Helper()
	words := func(all []store.Status) (words []string) {
		for _, s := range all {
			words = append(words, s.String())
		}
		return words
	}
	assert.Equal(t, words(want), words(got), why...)
}

// requireStatus is assertStatus for an answer without which the case can't go
// on.
func requireStatus(t testing.TB, want, got store.Status, why ...any) {
	t.Helper()
	require.Equal(t, want.String(), got.String(), why...)
}
