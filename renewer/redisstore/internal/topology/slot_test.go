package topology_test

import (
	"regexp"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/lockbeat/lockbeat/renewer/redisstore/internal/topology"
	"github.com/lockbeat/lockbeat/testutil/redistest"
)

func TestSlotOf(t *testing.T) {
	t.Parallel()
	assert.EqualValues(t, 0x31C3, topology.Slot("123456789"), "the check value of the CRC")
	for key, tag := range map[string]string{
		"a": "a", "{a}b": "a", "x{a}:freed": "a", "{}a": "{}a", "a{": "a{", "a}{": "a}{",
		"{a}{b}": "a", "{{a}}": "{a", "": "",
	} {
		assert.Equal(t, topology.Slot(tag), topology.SlotOf(key), "%q", key)
		assert.EqualValues(t, redistest.Slot(key), topology.SlotOf(key), "%q", key)
	}
}

// Tokens of a slot's locks are kept by a key in that slot, which every process
// must call alike.
func TestEverySlotHasATag(t *testing.T) {
	t.Parallel()
	seen := make(map[string]bool, topology.Slots)
	digits := regexp.MustCompile(`^\d{1,6}$`)
	for slot := range uint16(topology.Slots) {
		tag := topology.TagOf(slot)
		require.Equal(t, slot, topology.Slot(tag), tag)
		require.Regexp(t, digits, tag, "which stands between braces as it is")
		seen[tag] = true
	}
	assert.Len(t, seen, topology.Slots)
	assert.Equal(t, "0", topology.TagOf(topology.Slot("0")), "the smallest number")
}
