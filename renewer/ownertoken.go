package renewer

import (
	"crypto/rand"
	"encoding/base64"
	"unsafe"
)

// ownerToken is the owner token of a lease, inside the lease: with a string each of very many
// leases would take 16 bytes more, and a heartbeat would read one more place in memory. It is
// written once, before it is read.
type ownerToken [OwnerLen]byte

// newOwner makes one of 128 random bits, so that no two acquisitions share one, not even those of
// a process that was cloned from a snapshot, for which a counter would repeat.
func newOwner() (token ownerToken) {
	var raw [16]byte
	rand.Read(raw[:]) // never fails: see crypto/rand
	base64.RawURLEncoding.Encode(token[:], raw[:])
	return token
}

// String is the token without a copy; "" if there is none yet.
func (o *ownerToken) String() string {
	if o[0] == 0 {
		return ""
	}
	return unsafe.String(&o[0], len(o)) //nolint:gosec // it is not written any more
}
