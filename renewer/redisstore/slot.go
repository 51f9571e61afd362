package redisstore

// slots is how many hash slots a cluster has.
const slots = 16384

// slotOf returns the slot of all keys of a lock: that of what is between their
// braces, by the CRC-16 that Redis Cluster uses. Source: the Redis Cluster
// specification, appendix A (XMODEM: polynomial 0x1021, initial value 0).
func slotOf(name string) uint16 {
	if !clean(name) {
		name = escape(name)
	}
	crc := uint16(0)
	for i := range len(name) {
		crc = crc<<8 ^ crcTable[byte(crc>>8)^name[i]]
	}
	return crc % slots
}

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
