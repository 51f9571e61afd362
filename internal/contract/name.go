package contract

import "github.com/lockbeat/lockbeat/renewer/store"

// Name is that of a lock, or of a limit. A lock and a limit of one text are two
// things.
type Name struct {
	Text  string
	Limit bool
}

// Claimed is the name that a claim is for.
func Claimed(c *store.Claim) Name { return Name{c.Name, c.Limit != 0} }

// Held is the name of a hold.
func Held(h *store.Hold) Name { return Name{h.Name, h.Limit} }

// Broken is the name of a lease that is to be broken.
func Broken(b *store.Breaking) Name { return Name{b.Name, b.Limit} }
