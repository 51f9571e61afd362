package renewer

import (
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"
)

// Each lease on the books has its own index, whatever comes and goes, and they are idle when the
// last is gone.
func TestTheBooksFindEachLease(t *testing.T) {
	t.Parallel()
	var b books
	random := rand.New(rand.NewPCG(1, 2))
	on := map[*Lease]bool{}
	some := func() *Lease {
		for l := range on {
			return l
		}
		return nil
	}
	for range 5000 {
		switch l := some(); {
		case l == nil || random.IntN(3) > 0 && len(on) < 50:
			fresh := new(Lease)
			b.enter(fresh)
			on[fresh] = true
		case random.IntN(3) == 0:
			next := new(Lease)
			b.replace(l, next)
			delete(on, l)
			on[next] = true
			b.forget(l) // which is not on them any more
		default:
			b.forget(l)
			delete(on, l)
		}
		require.Len(t, b.leases, len(on))
		for i, l := range b.leases {
			require.True(t, on[l])
			require.Equal(t, i+1, int(l.index))
		}
	}
	b.callIn()
	idle := b.whenIdle()
	for l := range on {
		b.forget(l)
	}
	select {
	case <-idle:
		require.Fail(t, "a call is under way")
	default:
	}
	b.callOut()
	<-idle
	b.callIn()
	b.callOut() // it does not close twice
	require.NotNil(t, new(books).whenIdle())
}
