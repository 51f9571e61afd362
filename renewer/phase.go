package renewer

// shutdown is how far [Keeper.Shutdown] has come. Guarded by Keeper.mu, other than the channels.
//
// What it holds true: the phases come in their order, and ended does
// not change once stop is closed.
type shutdown struct {
	phase    phase
	stillRan int           // operations that ran when they were told to stop
	ended    error         // what Shutdown returns
	closed   chan struct{} // closed when it begins
	stop     chan struct{} // closed when it has freed everything
}

func newShutdown() shutdown {
	return shutdown{closed: make(chan struct{}), stop: make(chan struct{})}
}

type phase uint8

const (
	phaseRun   phase = iota
	phaseDrain       // callers are refused, and operations are waited for
	phaseTell        // every operation was told to stop: one that begins now is told at once
	phaseFree        // questions to the store have ended: those asked now end at once
)
