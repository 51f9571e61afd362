package lockmw

import (
	"time"

	"github.com/lockbeat/lockbeat/lockmw/internal/names"
	"github.com/lockbeat/lockbeat/lockmw/internal/option"
)

// What tests see of package lockmw.
var (
	Within = func(d time.Duration) FuncOption {
		return FuncOption{Set: func(s option.Settings) option.Settings {
			s.Within = max(d, 1)
			return s
		}}
	}
	Expected = FuncOption{Set: func(s option.Settings) option.Settings {
		s.Expected = true
		return s
	}}
)

// Split are the names of a set, nil if it is one or none.
func Split(s Set) []string {
	if _, one, _ := names.Set(s).One(); one {
		return nil
	}
	return names.Set(s).Texts()
}

// Err is why a set is refused.
func Err(s Set) error { return names.Set(s).Err() }
