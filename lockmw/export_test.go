package lockmw

// What tests see of package lockmw.
var (
	Split   = split
	TooMany = tooMany
)
