package renewer

import (
	"time"
)

// tokens are the fencing tokens of one grant, for hand-offs. One is used only once as much time has
// passed since the grant as it is above the first: so those in use do not run ahead of the store's
// clock, by which tokens rise after the store has lost its data. Guarded by Keeper.mu.
type tokens struct {
	granted instant // when the answer came: the store's clock has shown first by then
	first   int64   // the token granted
	last    int64   // the highest reserved, first if none is
	left    int     // hand-offs, by Config.HandOffs
	until   instant // by Config.HandOffFor
}

// next is the token above fence, if it may be used by now. The store's clock may be slower than
// ours by the drift.
func (t *tokens) next(fence int64, now instant, drift float64) (int64, bool) {
	fence++
	elapsed := float64(now.Sub(t.granted)) * (1 - drift) / (1 + drift)
	ok := fence <= t.last && t.left > 0 && now < t.until &&
		float64(fence-t.first)*float64(time.Microsecond) <= elapsed
	return fence, ok
}
