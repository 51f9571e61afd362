package topology_test

import (
	"testing"

	"github.com/stretchr/testify/assert"

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
