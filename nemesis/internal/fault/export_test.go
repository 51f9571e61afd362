package fault

// The bounds of a former primary that wants a replica.
const (
	MaxLag   = maxLag
	LagSlack = lagSlack
)
