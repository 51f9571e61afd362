package topology

import (
	"strconv"
	"strings"
	"sync"
)

// Slots is how many hash slots a cluster has.
const Slots = 16384

// Slot returns the slot of all keys and channels that have a hash tag, by the
// CRC-16 that Redis Cluster uses. Source: the Redis Cluster specification,
// appendix A (XMODEM: polynomial 0x1021, initial value 0).
func Slot(tag string) uint16 {
	crc := uint16(0)
	for i := range len(tag) {
		crc = crc<<8 ^ crcTable[byte(crc>>8)^tag[i]]
	}
	return crc % Slots
}

// SlotOf returns the slot of a key or a channel. Its hash tag is what its first
// pair of braces encloses; without such a pair, or with an empty one, it is the
// whole.
func SlotOf(key string) uint16 {
	if _, rest, ok := strings.Cut(key, "{"); ok {
		if tag, _, ok := strings.Cut(rest, "}"); ok && tag != "" {
			return Slot(tag)
		}
	}
	return Slot(key)
}

// TagOf returns a hash tag that is in a slot: the smallest number that is. It
// is the same in every process.
func TagOf(slot uint16) string { return strconv.FormatUint(uint64(tags()[slot%Slots]), 10) }

// tags are the hash tags of all slots, made when the first is needed: some ms
// of work.
var tags = sync.OnceValue(func() *[Slots]uint32 {
	var all [Slots]uint32
	var found [Slots]bool
	for tag, left := uint32(0), Slots; left > 0; tag++ {
		if slot := Slot(strconv.FormatUint(uint64(tag), 10)); !found[slot] {
			all[slot], found[slot] = tag, true
			left--
		}
	}
	return &all
})

var crcTable = makeCRCTable()

func makeCRCTable() (table [256]uint16) {
	for i := range table {
		crc := uint16(i) << 8
		for range 8 {
			carry := crc&0x8000 != 0
			crc <<= 1
			if carry {
				crc ^= 0x1021
			}
		}
		table[i] = crc
	}
	return table
}
