package renewer

import (
	"testing"
	"unsafe"

	"github.com/stretchr/testify/assert"

	"github.com/lockbeat/lockbeat/renewer/internal/lease"
)

// Go allocates sizes in steps: one byte more, and each of a million leases
// would take 160. What few of them need belongs in what a belief has for few.
func TestALeaseIsSmall(t *testing.T) {
	t.Parallel()
	assert.LessOrEqual(t, unsafe.Sizeof(Lease{}), uintptr(144))
}

// The reasons that belief gives by itself are those that users see.
func TestTheReasonsOfBelief(t *testing.T) {
	t.Parallel()
	assert.Equal(t, ReasonExpired, Reason(lease.Expired))
	assert.Equal(t, ReasonTaken, Reason(lease.Taken))
	assert.Equal(t, ReasonMaxHold, Reason(lease.MaxHold))
}
