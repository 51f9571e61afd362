package renewer

import "hash/maphash"

// fronts finds the lease at the front of a name. It is a hash table without the names, which are in
// the leases: of a million, each takes 18 bytes here, and 54 in a map of Go. The hashes are 4 of
// every 12 bytes, for speed: without them a look for a name that is not there, a removal and the
// growth of a part would read leases that are not in the processor's cache.
//
// It is in parts, by the first bits of a hash, and each of them grows and shrinks by itself. All
// callers wait meanwhile, but a part of a million leases moves 12,000 of them, and no more.
//
// What it holds true: a part in use has an empty slot, and there is none between the home of a
// lease, which its hash tells, and its slot. Guarded by Keeper.mu.
type fronts struct {
	seed  maphash.Seed
	parts [1 << frontPartBits]frontPart
}

const (
	frontPartBits = 6
	frontLeast    = 16 // slots of a part, from its first lease on
)

// frontPart needs no making: it has no slots until it is used. A slot is an index of both slices.
type frontPart struct {
	used   int      // slots
	hashes []uint32 // 0 if the slot is empty
	leases []*Lease
}

func newFronts() fronts { return fronts{seed: maphash.MakeSeed()} }

// get is the lease of a name; nil if there is none.
func (f *fronts) get(name string) *Lease {
	p, hash := f.part(name)
	if p.used == 0 {
		return nil
	}
	return p.leases[p.find(name, hash)]
}

// put enters a lease, in place of the one of its name if there is one.
func (f *fronts) put(l *Lease) {
	p, hash := f.part(l.name)
	if slots := len(p.leases); p.used >= slots/4*3 {
		p.resize(max(frontLeast, slots+slots/2))
	}
	i := p.find(l.name, hash)
	if p.hashes[i] == 0 {
		p.used++
	}
	p.hashes[i], p.leases[i] = hash, l
}

// remove takes the lease of a name out, if there is one.
func (f *fronts) remove(name string) {
	p, hash := f.part(name)
	if p.used == 0 {
		return
	}
	i := p.find(name, hash)
	if p.hashes[i] == 0 {
		return
	}
	p.clear(i)
	p.used--
	if slots := len(p.leases); p.used < slots/8 && slots > frontLeast {
		p.resize(max(frontLeast, slots/2))
	}
}

// length is how many names there are.
func (f *fronts) length() (n int) {
	for i := range f.parts {
		n += f.parts[i].used
	}
	return n
}

// part is the part of a name, and its hash there, which is not 0.
func (f *fronts) part(name string) (p *frontPart, hash uint32) {
	h := maphash.String(f.seed, name)
	return &f.parts[h>>(64-frontPartBits)], uint32(h) | 1
}

// find is the slot of a name, or the empty one where it is to be entered.
func (p *frontPart) find(name string, hash uint32) int {
	i := p.home(hash)
	for p.hashes[i] != 0 && (p.hashes[i] != hash || p.leases[i].name != name) {
		i = p.after(i)
	}
	return i
}

// clear empties a slot. Leases behind it move up, those that have it on the way from their home.
func (p *frontPart) clear(gap int) {
	for i := p.after(gap); p.hashes[i] != 0; i = p.after(i) {
		if p.distance(p.home(p.hashes[i]), i) >= p.distance(gap, i) {
			p.hashes[gap], p.leases[gap] = p.hashes[i], p.leases[i]
			gap = i
		}
	}
	p.hashes[gap], p.leases[gap] = 0, nil
}

// resize gives a part another number of slots.
func (p *frontPart) resize(slots int) {
	old := *p
	p.hashes, p.leases = make([]uint32, slots), make([]*Lease, slots)
	for from, hash := range old.hashes {
		if hash == 0 {
			continue
		}
		i := p.home(hash)
		for p.hashes[i] != 0 {
			i = p.after(i)
		}
		p.hashes[i], p.leases[i] = hash, old.leases[from]
	}
}

// home is the slot from which on a hash is looked for. It rises with the hash, so that the number
// of slots may be any.
func (p *frontPart) home(hash uint32) int { return int(uint64(hash) * uint64(len(p.hashes)) >> 32) }

// after is the next slot; the first comes after the last.
func (p *frontPart) after(i int) int {
	if i == len(p.hashes)-1 {
		return 0
	}
	return i + 1
}

// distance is how many slots there are to go from one to another.
func (p *frontPart) distance(from, to int) int {
	if to >= from {
		return to - from
	}
	return to - from + len(p.hashes)
}
