package renewer

import "github.com/lockbeat/lockbeat/renewer/internal/timing"

// instant is a point of local time, counted since the keeper was made.
type instant = timing.Instant

// never is later than every instant that is reached.
const never = timing.Never
