package renewer

import (
	"math/rand/v2"
	"strconv"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// Whatever names come and go, in crowds and alone: it holds what a map would.
func TestFrontsAreAMap(t *testing.T) {
	t.Parallel()
	anywhere := func(*frontPart, uint32) bool { return true }
	for name, names := range map[string]struct {
		n    int
		only func(f *fronts) func(*frontPart, uint32) bool
	}{
		"few":               {5, func(*fronts) func(*frontPart, uint32) bool { return anywhere }},
		"many":              {4000, func(*fronts) func(*frontPart, uint32) bool { return anywhere }},
		"some in one part":  {12, inPart},
		"many in one part":  {400, inPart},
		"all of near homes": {100, nearHomes},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFronts()
			playFronts(t, &f, namesThat(&f, names.n, names.only(&f)))
		})
	}
}

func playFronts(t *testing.T, f *fronts, names []string) {
	t.Helper()
	dice := rand.New(rand.NewPCG(1, uint64(len(names))))
	want := make(map[string]*Lease)
	for i := range 12_000 {
		name := names[dice.IntN(len(names))]
		coming := 1 + i/3000%2*2 // they come for a while, and go for a while
		if dice.IntN(4) >= coming {
			want[name] = &Lease{name: name}
			f.put(want[name])
		} else {
			f.remove(name)
			delete(want, name)
		}
		require.Same(t, want[name], f.get(name))
		if i%1000 == 999 {
			requireFronts(t, f, names, want)
		}
	}
	for i, name := range names {
		f.remove(name)
		delete(want, name)
		if i%100 == 0 {
			requireFronts(t, f, names, want)
		}
	}
	requireFronts(t, f, names, nil)
}

// requireFronts asks that there are those of the names that are wanted, and no slots for many more.
func requireFronts(t *testing.T, f *fronts, names []string, want map[string]*Lease) {
	t.Helper()
	require.Equal(t, len(want), f.length())
	for _, name := range names {
		if want[name] != f.get(name) {
			require.Fail(t, "not the lease", name)
		}
	}
	for i := range f.parts {
		p := &f.parts[i]
		slots := len(p.leases)
		require.LessOrEqual(t, p.used, slots*3/4)
		require.True(t, slots <= frontLeast || p.used >= slots/8, "%d of %d", p.used, slots)
	}
}

// A lease that goes leaves no gap before those that it had in its way, around the end too.
func TestFrontsMoveUpAroundTheEnd(t *testing.T) {
	t.Parallel()
	first := newFronts()
	names := namesThat(&first, 10, nearHomes(&first))
	for _, gone := range names {
		f := fronts{seed: first.seed}
		for _, name := range names {
			f.put(&Lease{name: name})
		}
		p, _ := f.part(gone)
		require.Len(t, p.leases, frontLeast)
		require.NotZero(t, p.hashes[0], "they go around the end")
		f.remove(gone)
		for _, name := range names {
			require.Equal(t, name != gone, f.get(name) != nil)
		}
		for i, hash := range p.hashes {
			for on := p.home(hash); hash != 0 && on != i; on = p.after(on) {
				require.NotZero(t, p.hashes[on])
			}
		}
	}
}

// Two names of the same hash are two names.
func TestFrontsLookAtTheName(t *testing.T) {
	t.Parallel()
	var p frontPart
	p.resize(frontLeast)
	const hash = 1<<32 - 1 // its home is the last slot
	require.Equal(t, frontLeast-1, p.find("a", hash))
	p.hashes[frontLeast-1], p.leases[frontLeast-1] = hash, &Lease{name: "a"}
	assert.Equal(t, frontLeast-1, p.find("a", hash))
	assert.Zero(t, p.find("b", hash))
	p.hashes[0], p.leases[0] = hash, &Lease{name: "b"}
	assert.Zero(t, p.find("b", hash))
}

// The slots of a crowd go with it, but for so few that one who comes alone needs no new ones.
func TestFrontsOfACrowdThatHasGone(t *testing.T) {
	t.Parallel()
	f := newFronts()
	slots := func() (n int) {
		for _, p := range f.parts {
			require.Len(t, p.hashes, len(p.leases))
			n += len(p.leases)
		}
		return n
	}
	assert.Nil(t, f.get("nobody"))
	f.remove("nobody")
	assert.Zero(t, slots())
	crowd := named(20_000)
	for _, l := range crowd {
		f.put(l)
	}
	assert.Less(t, slots(), 2*len(crowd)+len(f.parts)*frontLeast)
	for _, l := range crowd {
		f.remove(l.name)
	}
	assert.Equal(t, len(f.parts)*frontLeast, slots())
	for _, p := range f.parts {
		for _, l := range p.leases {
			require.Nil(t, l, "it would be kept in memory")
		}
	}
}

// inPart tells names of the first part.
func inPart(f *fronts) func(*frontPart, uint32) bool {
	return func(p *frontPart, _ uint32) bool { return p == &f.parts[0] }
}

// nearHomes tells names of the first part whose homes are the last of the slots.
func nearHomes(f *fronts) func(*frontPart, uint32) bool {
	return func(p *frontPart, hash uint32) bool { return p == &f.parts[0] && hash>>29 == 7 }
}

// namesThat are the first names of whose parts and hashes something is true.
func namesThat(f *fronts, n int, is func(*frontPart, uint32) bool) (names []string) {
	for i := 0; len(names) < n; i++ {
		name := strconv.Itoa(i)
		if is(f.part(name)) {
			names = append(names, name)
		}
	}
	return names
}

// named are leases with names of one length.
func named(n int) []*Lease {
	leases := make([]*Lease, n)
	for i := range leases {
		leases[i] = &Lease{name: strconv.Itoa(10_000_000 + i)}
	}
	return leases
}

// What a name takes that comes and goes, among others that stay; and in Go's map. It is another
// name each time, so that the caches do not know it.
func BenchmarkFronts(b *testing.B) {
	for _, n := range []int{10, 10_000, 1_000_000} {
		leases := named(n + 1<<16)
		stay, visitors := leases[:n], leases[n:]
		b.Run("fronts/"+strconv.Itoa(n), func(b *testing.B) {
			f := newFronts()
			for _, l := range stay {
				f.put(l)
			}
			b.ReportAllocs()
			for i := 0; b.Loop(); i++ {
				l := visitors[i%len(visitors)]
				if f.get(l.name) == nil {
					f.put(l)
				}
				f.remove(l.name)
			}
		})
		b.Run("map/"+strconv.Itoa(n), func(b *testing.B) {
			f := make(map[string]*Lease)
			for _, l := range stay {
				f[l.name] = l
			}
			b.ReportAllocs()
			for i := 0; b.Loop(); i++ {
				l := visitors[i%len(visitors)]
				if f[l.name] == nil {
					f[l.name] = l
				}
				delete(f, l.name)
			}
		})
	}
}
