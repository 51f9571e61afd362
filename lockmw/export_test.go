package lockmw

import "github.com/lockbeat/lockbeat/lockmw/internal/naming"

// What tests see of package lockmw.
var (
	Split   = naming.Split
	TooMany = tooMany
)
