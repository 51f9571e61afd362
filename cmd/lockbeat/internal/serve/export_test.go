package serve

// What tests look at.
var (
	Asking        = asking
	ForLocalNames = forLocalNames
)

// What tests count with.
const (
	Pause    = pause
	MostEach = mostEach
	MostAll  = mostAll
)
