package lease

import (
	"crypto/rand"
	"encoding/base64"
	"unsafe"

	"github.com/lockbeat/lockbeat/renewer/store"
)

// Owner is an owner token, inside the lease: with a string each of very many leases would take 16
// bytes more, and a heartbeat would read one more place in memory. It is written once, before it is
// read.
type Owner [store.OwnerLen]byte

// NewOwner makes one of 128 random bits, so that no two acquisitions share one, not even those of
// a process that was cloned from a snapshot, for which a counter would repeat.
func NewOwner() (token Owner) {
	var raw [16]byte
	rand.Read(raw[:]) // never fails: see crypto/rand
	base64.RawURLEncoding.Encode(token[:], raw[:])
	return token
}

// String is the token without a copy; "" if there is none yet.
func (o *Owner) String() string {
	if o[0] == 0 {
		return ""
	}
	return unsafe.String(&o[0], len(o)) //nolint:gosec // it is not written any more
}
