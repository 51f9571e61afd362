package renewer

import (
	"testing"
	"unsafe"

	"github.com/stretchr/testify/assert"
)

// Go allocates sizes in steps: one byte more, and each of a million leases would take 160. What few
// of them need belongs in leaseExtras.
func TestALeaseIsSmall(t *testing.T) {
	t.Parallel()
	assert.LessOrEqual(t, unsafe.Sizeof(Lease{}), uintptr(144))
}
