package redisstore

// These bound one script, so that none keeps the server from others for a millisecond.
const (
	// maxKeys leases take about 0.2 ms.
	maxKeys = 100
	// maxKeyBytes is what the keys of maxKeys leases may have together, beyond which there are
	// fewer in a script: a hundred names of 512 bytes that all need escaping took 2.4 ms.
	maxKeyBytes = 16 << 10
)

// scriptRoom counts what is in a call of a script: at most perCall
// names, and fewer if they are long. At first there is no call.
type scriptRoom struct {
	prefix      string
	perCall     int
	names, size int
}

// add adds a name to the call, or reports that there is no room for it.
func (r *scriptRoom) add(name string) bool {
	if r.names == 0 || r.names == r.perCall {
		return false
	}
	r.names++
	r.size += keySize(r.prefix, name)
	return r.size <= maxKeyBytes
}

// begin begins a call with a name.
func (r *scriptRoom) begin(name string) {
	r.names, r.size = 1, keySize(r.prefix, name)
}
